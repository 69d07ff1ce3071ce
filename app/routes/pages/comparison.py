"""Embeddings side by side: which, what was measured of each, and how far they are from the first."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from app.context import Context
from app.db.models import Embedding
from app.dependencies import ContextDep
from app.embeddings.readings import grouped
from app.figures.figure import Cell, Figure, Table
from app.figures.palette import SERIES
from app.figures.projection import PROJECTION
from app.figures.report import figures_of
from app.figures.sample_size import SAMPLE_SIZE
from app.figures.subject import Subject
from app.routes.responses import FileKind, csv_file, figure_file, find_figure, see
from app.services.comparison import (
    LEAST,
    MOST,
    Compared,
    cautions,
    compare,
    distinct_names,
    get_chosen,
    get_compared,
    in_order_of_making,
)
from app.services.encodings import list_encodings
from app.services.figure_data import get_figure_data, get_figure_slugs
from app.services.library import OFFERED, newest_measured
from app.templating import templates

router = APIRouter(prefix="/compare")


class Choice(NamedTuple):
    """What the URL says: ids, the first of which is the baseline, and whether only what differs is shown."""

    ids: list[str]
    differing: bool = False

    def url(self, path: str = "/compare", **changed: Any) -> str:
        """The comparison of these, or a file of it at ``path``."""
        choice = self._replace(**changed)
        return f"{path}?{choice.query}" if choice.ids else path

    @property
    def query(self) -> str:
        """The query string again."""
        pairs = [("id", one) for one in self.ids] + ([("show", "differing")] if self.differing else [])
        return urlencode(pairs)

    def first(self, embedding_id: str) -> str:
        """The URL with another baseline."""
        return self.url(ids=[embedding_id, *(one for one in self.ids if one != embedding_id)])

    def without(self, embedding_id: str) -> str:
        """The URL without one of them."""
        return self.url(ids=[one for one in self.ids if one != embedding_id])


def _choice(
    id: Annotated[list[str] | None, Query()] = None,  # noqa: A002 - the name in the URL
    show: str = "",
) -> Choice:
    return Choice([one for one in id or [] if one], show == "differing")


ChoiceDep = Annotated[Choice, Depends(_choice)]


@router.get("")
def show_comparison(
    request: Request,
    context: ContextDep,
    choice: ChoiceDep,
    chosen_in: Annotated[Literal["library", ""], Query(alias="from")] = "",
) -> Response:
    """The comparison, or what to do for one; what was chosen in the library has no order of its own and gets one."""
    embeddings = get_chosen(context, choice.ids)
    if chosen_in:
        return see(choice.url(ids=[one.id for one in in_order_of_making(embeddings)]))
    shown = {
        "choice": choice,
        "embeddings": embeddings,
        "names": distinct_names(embeddings),
        "colours": SERIES,
        "offered": _offered(context, choice),
        "most": MOST,
    }
    if len(embeddings) >= LEAST:
        rows = compare(embeddings)
        listed = [row for row in rows if row.differs] if choice.differing else rows
        shown |= {
            "groups": grouped(listed, lambda row: row.measure),
            "rows": rows,
            "cautions": cautions(embeddings),
            "figures": compared_figures(context, embeddings, SAMPLE_SIZE),
            # Megabytes of several embeddings: its own page has it, and fills its place.
            "later": any(PROJECTION in get_figure_slugs(context, one.id) for one in embeddings),
        }
    return templates.TemplateResponse(request, "compare.html", shown)


@router.get("/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, slug: str, choice: ChoiceDep) -> Response:
    """A figure with its numbers, on a page of its own, of which the comparison takes them when asked."""
    figure = find_figure(compared_figures(context, get_compared(context, choice.ids), slug), slug)
    return templates.TemplateResponse(request, "compare_figure.html", {"choice": choice, "figure": figure})


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, slug: str, kind: FileKind, choice: ChoiceDep) -> Response:
    """A figure with all of them in it."""
    return figure_file(compared_figures(context, get_compared(context, choice.ids), slug), slug, kind)


@router.get("/measurements.csv")
def show_measurements(context: ContextDep, choice: ChoiceDep) -> Response:
    """All values and differences, a row for each measure of each embedding."""
    embeddings = get_compared(context, choice.ids)
    return csv_file(table_of(compare(embeddings), embeddings), "comparison")


def table_of(rows: Sequence[Compared], embeddings: Sequence[Embedding]) -> Table:
    """Every value in a row of its own, beside its difference to the baseline."""
    columns = ["measure", "embedding", "id", "value", "se", "n", "reason"]
    columns += ["difference", "difference_se", "low", "high", "paired", "rows", "why_no_interval", "excludes_zero"]
    lines: list[list[Cell]] = []
    for row in rows:
        for embedding, found, difference in zip(embeddings, row.found, row.differences, strict=True):
            value: list[Cell] = [found.value, found.se, found.n, found.reason] if found else [None] * 4
            line: list[Cell] = [row.measure.slug, embedding.name, embedding.id, *value]
            lines.append(line + ([*difference, difference.excludes_zero] if difference else [None] * 8))
    return Table(columns, lines)


def _offered(context: Context, choice: Choice) -> dict[str, list[Embedding]]:
    """What can be added, under headings: uploads and what was made of them first, then layers by their encoding."""
    names = {one.id: f"Layers of {one.name}" for one in list_encodings(context)}
    offered: dict[str, list[Embedding]] = {}
    for one in newest_measured(context, OFFERED):
        if one.id not in choice.ids:
            heading = names.get(one.encoding_id or "", "Uploaded and made")
            offered.setdefault(heading, []).append(one)
    return offered


def compared_figures(context: Context, embeddings: Sequence[Embedding], slug: str) -> list[Figure]:
    """Figures of all of them, under names that tell them apart; of the data that no measure holds, one's is read."""
    subjects = [
        replace(Subject.of(one, get_figure_data(context, one.id, slug)), name=name)
        for one, name in zip(embeddings, distinct_names(embeddings), strict=True)
    ]
    return figures_of(subjects)
