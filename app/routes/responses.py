"""What page handlers answer with besides pages: the files of figures and tables, and the way to the next page."""

from collections.abc import Iterable
from typing import Literal

from fastapi import Response
from fastapi.responses import RedirectResponse

from app.errors import NotFoundError
from app.figures.figure import Figure, Table, plot
from app.routes.downloads import attachment

FileKind = Literal["json", "csv"]


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
