"""Answers besides pages: the way to the next page, files of figures and tables, and files sent as they lie."""

from collections.abc import Iterable
from typing import Any, Literal
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, StreamingResponse

from app.figures.figure import Figure, Table, plot
from app.results.tables.printed import Style
from app.results.tables.summary import Summary
from app.results.tables.texts import MEDIA_TYPES, Kind, text_of
from app.services.exports import Export
from app.services.files import Download, SafetensorsFile
from app.services.predictions import RunPredictions
from isoscope.core.errors import NotFoundError

FileKind = Literal["json", "csv"]
TableFile = Kind | Literal["json"]
BINARY = "application/octet-stream"
DOCUMENTED: dict[str, Any] = {
    "response_class": FileResponse,
    "responses": {
        200: {"description": "The file.", "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
    },
}
"""How a route that answers with a file says so."""


def see(path: str) -> Response:
    """Send the browser to a page after a change."""
    return RedirectResponse(path, 303)


def find_figure(figures: Iterable[Figure], slug: str) -> Figure:
    """The figure of that slug."""
    figure = next((figure for figure in figures if figure.slug == slug), None)
    if figure is None:
        raise NotFoundError(f"There is no figure {slug!r} on this page.")
    return figure


def figure_file(figures: Iterable[Figure], slug: str, kind: FileKind) -> Response:
    """One of the figures as plotly JSON, without a trace where there is nothing to draw, or its numbers as CSV."""
    figure = find_figure(figures, slug)
    if kind == "json":
        drawn = plot([]) if figure.empty else figure.draw()
        return Response(drawn.to_json(), media_type="application/json")
    return csv_file(figure.table)


def csv_file(table: Table, name: str | None = None) -> Response:
    """A table as a CSV file to keep; without a name it has that of the link that led here."""
    headers = attachment(f"isoscope-{name}.csv" if name else None)
    return Response(table.csv(), media_type="text/csv", headers=headers)


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


def table_file(summary: Summary, kind: TableFile, style: Style) -> Response:
    """A table to keep: as a paper prints it, or unrounded."""
    headers = attachment(f"isoscope-means.{kind}")
    if kind == "json":
        table = summary.table()
        return JSONResponse([dict(zip(table.columns, row, strict=True)) for row in table.rows], headers=headers)
    return Response(text_of(summary, kind, style), media_type=MEDIA_TYPES[kind], headers=headers)
