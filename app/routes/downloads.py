"""Answers that are files of vectors, sent as they lie without being held in memory."""

from typing import Any
from urllib.parse import quote

from fastapi.responses import FileResponse, StreamingResponse

from app.services.files import Download, SafetensorsFile

BINARY = "application/octet-stream"
DOCUMENTED: dict[str, Any] = {
    "response_class": FileResponse,
    "responses": {
        200: {"description": "The file.", "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
    },
}
"""How a route that answers with a file says so."""


def file_of(download: Download) -> FileResponse:
    """A file to keep."""
    return FileResponse(download.path, media_type=BINARY, filename=download.filename)


def safetensors_of(file: SafetensorsFile) -> StreamingResponse:
    """Vectors behind a header of safetensors."""
    headers = {
        "Content-Disposition": f"attachment; filename*=utf-8''{quote(file.filename, safe='')}",
        "Content-Length": str(file.size_bytes),
    }
    return StreamingResponse(file.blocks(), media_type=BINARY, headers=headers)
