"""Embeddings side by side: which, what was measured of each, and how far they are from the first."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from app.context import OFFERED, Context
from app.db.models import Embedding
from app.embeddings.alignments import alignments_of, request_alignments
from app.embeddings.comparison import (
    LEAST,
    MOST,
    cautions,
    compare,
    distinct_names,
    get_chosen,
    get_compared,
    in_order_of_making,
)
from app.embeddings.figures.projection import PROJECTION
from app.embeddings.figures.sample_size import SAMPLE_SIZE
from app.embeddings.library import name_encodings, newest_measured
from app.embeddings.readings import grouped
from app.embeddings.report import Choice, ChoiceDep, compared_figures, table_of
from app.embeddings.service import get_figure_slugs
from app.figures.palette import SERIES
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, csv_file, figure_file, find_figure, render, see
from isotropy.catalog import ALIGNMENTS

router = APIRouter(prefix="/compare")


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
            "alignments": alignments_of(context, embeddings),
            "alignment_measures": list(ALIGNMENTS.values()),
            "figures": compared_figures(context, embeddings, SAMPLE_SIZE),
            # Megabytes of several embeddings: its own page has it, and fills its place.
            "later": any(PROJECTION in get_figure_slugs(context, one.id) for one in embeddings),
        }
    return render(request, "embeddings/compare.html", shown)


@router.post("/alignments")
def align(context: ContextDep, choice: ChoiceDep) -> Response:
    """Have these embeddings compared row by row, and go to where the numbers appear."""
    request_alignments(context, get_compared(context, choice.ids))
    return see(f"{choice.url()}#alignments")


@router.get("/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, slug: str, choice: ChoiceDep) -> Response:
    """A figure with its numbers, on a page of its own, of which the comparison takes them when asked."""
    figure = find_figure(compared_figures(context, get_compared(context, choice.ids), slug), slug)
    return render(request, "embeddings/compare_figure.html", {"choice": choice, "figure": figure})


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, slug: str, kind: FileKind, choice: ChoiceDep) -> Response:
    """A figure with all of them in it."""
    return figure_file(compared_figures(context, get_compared(context, choice.ids), slug), slug, kind)


@router.get("/measurements.csv")
def show_measurements(context: ContextDep, choice: ChoiceDep) -> Response:
    """All values and differences, a row for each measure of each embedding."""
    embeddings = get_compared(context, choice.ids)
    return csv_file(table_of(compare(embeddings), embeddings), "comparison")


def _offered(context: Context, choice: Choice) -> dict[str, list[Embedding]]:
    """What can be added, under headings: uploads and what was made of them first, then layers by their encoding."""
    names = name_encodings(context)
    offered: dict[str, list[Embedding]] = {}
    for one in newest_measured(context, OFFERED):
        if one.id not in choice.ids:
            name = names.get(one.encoding_id or "")
            heading = f"Layers of {name}" if name else "Uploaded and made"
            offered.setdefault(heading, []).append(one)
    return offered
