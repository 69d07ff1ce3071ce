"""Answers that are files of vectors, sent as they lie without being held in memory."""

from typing import Any
from urllib.parse import quote

from fastapi.responses import FileResponse, StreamingResponse

from app.services.exports import Export
from app.services.files import Download, SafetensorsFile
from app.services.predictions import RunPredictions

BINARY = "application/octet-stream"
DOCUMENTED: dict[str, Any] = {
    "response_class": FileResponse,
    "responses": {
        200: {"description": "The file.", "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
    },
}
"""How a route that answers with a file says so."""


def attachment(name: str | None = None) -> dict[str, str]:
    """The header of an answer that is a file to keep; without a name it has that of the link that led there."""
    quoted = quote(name or "", safe="")
    told = f'; filename="{name}"' if quoted == name else f"; filename*=utf-8''{quoted}" if name else ""
    return {"Content-Disposition": f"attachment{told}"}


def file_of(download: Download) -> FileResponse:
    """A file to keep."""
    return FileResponse(download.path, media_type=BINARY, headers=attachment(download.filename))


def safetensors_of(file: SafetensorsFile) -> StreamingResponse:
    """Vectors behind a header of safetensors."""
    headers = attachment(file.filename) | {"Content-Length": str(file.size_bytes)}
    return StreamingResponse(file.blocks(), media_type=BINARY, headers=headers)


def export_of(export: Export) -> StreamingResponse:
    """An experiment as a zip file, which is gone from here when it has been sent."""
    headers = attachment(export.filename) | {"Content-Length": str(export.size_bytes)}
    return StreamingResponse(export.blocks(), media_type=BINARY, headers=headers)


def csv_of(found: RunPredictions) -> StreamingResponse:
    """Predictions as a CSV file, sent while it is written."""
    headers = attachment(f"predictions-{found.run.id}.csv")
    return StreamingResponse(found.csv(), media_type="text/csv; charset=utf-8", headers=headers)
