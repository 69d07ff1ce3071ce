"""Responses with pages, redirects, figures, tables and files, and the tabs of a page."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import FileResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from app.figures.figure import Figure, FigureTable
from app.web.error_responses import STATUS
from app.web.templating import templates
from isoscope.core.errors import IsoscopeError, NotFoundError
from isoscope.files.upload import NamedFile

FileKind = Literal["json", "csv"]
BINARY = "application/octet-stream"
FILE_RESPONSE: dict[str, Any] = {
    "response_class": FileResponse,
    "responses": {
        200: {"description": "The file.", "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
    },
}
"""Arguments that document a route which returns a file."""


def render(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    problem: IsoscopeError | None = None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Render a page. A problem is shown in its form, and determines the status unless ``status`` is set."""
    status = status or (STATUS[type(problem)] if problem else 200)
    return templates.TemplateResponse(request, template, {"problem": problem, **values}, status, headers)


def render_figure(
    request: Request, figure: Figure, section: str, crumbs: Sequence[tuple[str, str]], query: str, **values: Any
) -> Response:
    """Render the page of a figure. ``crumbs`` are titles and paths; ``values`` can override base, name and live."""
    name, base = crumbs[-1]
    values = {"name": name, "base": base, "query": query, "live": False, **values}
    return render(request, "web/figure_page.html", {"figure": figure, "section": section, "crumbs": crumbs} | values)


def redirect_to(path: str) -> Response:
    return RedirectResponse(path, 303)


def find_figure(figures: Iterable[Figure], slug: str) -> Figure:
    figure = next((figure for figure in figures if figure.slug == slug), None)
    if figure is None:
        raise NotFoundError(f"There is no figure {slug!r} on this page.")
    return figure


def figure_file(figures: Iterable[Figure], slug: str, kind: FileKind) -> Response:
    """Return the plot of a figure as JSON or its numbers as CSV."""
    figure = find_figure(figures, slug)
    if kind == "json":
        return Response(figure.json(), media_type="application/json")
    return csv_file(figure.table)


def csv_file(table: FigureTable, name: str | None = None) -> Response:
    """Return a table as a CSV download. Without a name, the file is named after the URL."""
    headers = attachment_headers(f"isoscope-{name}.csv" if name else None)
    return Response(table.csv(), media_type="text/csv", headers=headers)


def attachment_headers(name: str | None = None) -> dict[str, str]:
    """Return Content-Disposition for a download. Without a name, the file is named after the URL."""
    if not name:
        return {"Content-Disposition": "attachment"}
    quoted = quote(name, safe="")
    parameter = f'filename="{name}"' if quoted == name else f"filename*=utf-8''{quoted}"
    return {"Content-Disposition": f"attachment; {parameter}"}


def download_response(file: NamedFile) -> FileResponse:
    return FileResponse(file.path, media_type=BINARY, headers=attachment_headers(file.filename))


def stream_download(filename: str, size_bytes: int, blocks: Iterator[bytes]) -> StreamingResponse:
    headers = attachment_headers(filename) | {"Content-Length": str(size_bytes)}
    return StreamingResponse(blocks, media_type=BINARY, headers=headers)


class FigureOut(BaseModel):
    """A figure as its page shows it."""

    slug: str
    title: str
    caption: str
    empty: str | None = Field(description="What will appear here, if there is nothing to draw yet; otherwise null.")
    columns: list[str]
    rows: list[list[str | float | None]] = Field(description="The numbers, unrounded, as in its CSV file.")
    plot: dict[str, Any] | None = Field(description="`data` and `layout` as plotly takes them.")

    @classmethod
    def from_figure(cls, figure: Figure) -> "FigureOut":
        return cls(
            slug=figure.slug,
            title=figure.title,
            caption=figure.caption,
            empty=figure.empty,
            columns=figure.table.columns,
            rows=list(figure.table.rows),
            plot=None if figure.empty else json.loads(figure.json()),
        )


class Tab(NamedTuple):
    """A tab of a page. Only the requested tab is rendered."""

    slug: str
    title: str
    path: str = ""
    """Appended to the URL of the page if the tab is a separate page."""


def chosen_tab(tabs: Sequence[Tab], slug: str, default: str = "") -> str:
    """Return ``slug`` if it is a tab of this page, else ``default``, else the slug of the first tab."""
    is_on_page = any(tab.slug == slug and not tab.path for tab in tabs)
    return slug if is_on_page else default or tabs[0].slug
