"""Answers besides pages: the way to the next page, figures, tables, files sent as they lie; and the tabs of a page."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import FileResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from app.figures.figure import Figure, FigureTable, plot
from app.storage.storage import Download
from app.web.error_responses import status_of
from app.web.templating import templates
from isoscope.core.errors import IsoscopeError, NotFoundError

FileKind = Literal["json", "csv"]
BINARY = "application/octet-stream"
DOCUMENTED: dict[str, Any] = {
    "response_class": FileResponse,
    "responses": {
        200: {"description": "The file.", "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
    },
}
"""How a route that answers with a file says so."""


def render(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    problem: IsoscopeError | None = None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Show a page; its form says the problem, if there is one, whose status the page has unless another is given."""
    status = status or (status_of(problem) if problem else 200)
    return templates.TemplateResponse(request, template, {"problem": problem, **values}, status, headers)


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


def csv_file(table: FigureTable, name: str | None = None) -> Response:
    """A table as a CSV file to keep; without a name it has that of the link that led here."""
    headers = attachment(f"isoscope-{name}.csv" if name else None)
    return Response(table.csv(), media_type="text/csv", headers=headers)


def attachment(name: str | None = None) -> dict[str, str]:
    """The header of an answer that is a file to keep; without a name it has that of the link that led there."""
    quoted = quote(name or "", safe="")
    parameter = f'; filename="{name}"' if quoted == name else f"; filename*=utf-8''{quoted}" if name else ""
    return {"Content-Disposition": f"attachment{parameter}"}


def file_of(download: Download) -> FileResponse:
    """A file to keep."""
    return FileResponse(download.path, media_type=BINARY, headers=attachment(download.filename))


class GeneratedFile(Protocol):
    """A file that is made while it is sent, whose size is known before."""

    @property
    def filename(self) -> str:
        """What it is called where it is kept."""

    @property
    def size_bytes(self) -> int:
        """Bytes in all."""

    def blocks(self) -> Iterator[bytes]:
        """Yield the file."""


def sent(file: GeneratedFile) -> StreamingResponse:
    """A file to keep, sent while it is made."""
    headers = attachment(file.filename) | {"Content-Length": str(file.size_bytes)}
    return StreamingResponse(file.blocks(), media_type=BINARY, headers=headers)


class FigureOut(BaseModel):
    """A figure as its page shows it."""

    slug: str
    title: str
    caption: str
    empty: str | None = Field(description="What will appear, where there is nothing to draw yet; null where there is.")
    columns: list[str]
    rows: list[list[str | float | None]] = Field(description="The numbers, unrounded, as in its CSV file.")
    plot: dict[str, Any] | None = Field(description="`data` and `layout` as plotly takes them.")

    @classmethod
    def from_figure(cls, figure: Figure) -> "FigureOut":
        """The figure, drawn unless it is empty."""
        return cls(
            slug=figure.slug,
            title=figure.title,
            caption=figure.caption,
            empty=figure.empty,
            columns=figure.table.columns,
            rows=list(figure.table.rows),
            plot=None if figure.empty else json.loads(figure.draw().to_json()),
        )


class Tab(NamedTuple):
    """A part of a page: it has an address, and only the one that is asked for is built."""

    slug: str
    """Its name in the address."""
    title: str
    path: str = ""
    """Behind the address of the page, where the part is a page of its own."""


def chosen_tab(tabs: Sequence[Tab], slug: str, usual: str = "") -> str:
    """Return the slug of the tab that is asked for; otherwise the usual one, or the first."""
    return slug if any(tab.slug == slug and not tab.path for tab in tabs) else usual or tabs[0].slug
