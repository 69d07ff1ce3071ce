"""Embeddings side by side or as a series: what was measured of each, how far they are apart, which rows moved."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from app.context import OFFERED, Context
from app.core.names import natural_order
from app.db.models import Embedding, ResultStatus
from app.embeddings.alignments import MovedBy, MovedRows, alignments_of, moved_rows_of, pairs_of, request_alignments
from app.embeddings.alignments import table_of as table_of_rows
from app.embeddings.choice import Choice, ChoiceDep, chosen_figures, compared_figures, table_of
from app.embeddings.comparison import (
    LEAST,
    MOST,
    MOST_STEPS,
    Against,
    cautions,
    compare,
    distinct_names,
    get_chosen,
    get_compared,
    in_order_of_making,
)
from app.embeddings.encodings import name_encodings
from app.embeddings.figures.comparison import moved_figures, series_figures, similarity_figures
from app.embeddings.figures.report import HEAVY, tabs_of_figures
from app.embeddings.figures.sample_size import SAMPLE_SIZE
from app.embeddings.library import newest_measured
from app.embeddings.readings import grouped
from app.embeddings.report import TABS
from app.embeddings.selections import write_rows
from app.embeddings.series import series_of, series_pairs, similar_steps
from app.embeddings.series import table_of as table_of_series
from app.embeddings.service import get_figure_slugs
from app.figures.figure import Figure
from app.figures.palette import SERIES
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, csv_file, figure_file, find_figure, render, see
from isotropy.catalog import ALIGNMENTS

router = APIRouter(prefix="/compare")
SHOWN_ROWS = 100
"""Rows that moved most, on their page; the file has all."""


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
    if len(embeddings) > MOST and not choice.series:
        return see(choice.url(series=True))
    shown = {
        "choice": choice,
        "embeddings": embeddings,
        "names": distinct_names(embeddings),
        "colours": SERIES,
        "offered": _offered(context, choice),
        "beside": MOST,
        "most": MOST_STEPS if choice.series else MOST,
        "orders": _orders(choice, embeddings) if choice.series else {},
    }
    if len(embeddings) >= LEAST:
        shown |= _series(context, choice, embeddings) if choice.series else _side_by_side(context, choice, embeddings)
    return render(request, "embeddings/compare.html", shown)


def _side_by_side(context: Context, choice: Choice, embeddings: Sequence[Embedding]) -> dict[str, Any]:
    rows = compare(embeddings)
    listed = [row for row in rows if row.differs] if choice.differing else rows
    stored = {slug for one in embeddings for slug in get_figure_slugs(context, one.id)}
    return {
        "groups": grouped(listed, lambda row: row.measure),
        "rows": rows,
        "cautions": cautions(embeddings),
        "alignments": alignments_of(context, pairs_of(embeddings, Against.FIRST)),
        "alignment_measures": list(ALIGNMENTS.values()),
        "parts": _figures_by_part(compared_figures(context, embeddings, SAMPLE_SIZE)),
        # Megabytes of several embeddings: their own pages have them, and fill their places.
        "later": [one for one in HEAVY if one.needs in stored and not one.single],
    }


def _figures_by_part(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """The figures by the title of the part of a report that shows each."""
    tab_of = tabs_of_figures()
    parts = {tab.title: [one for one in figures if tab_of[one.slug] == tab.slug] for tab in TABS}
    return {title: shown for title, shown in parts.items() if shown}


def _series(context: Context, choice: Choice, embeddings: Sequence[Embedding]) -> dict[str, Any]:
    series = series_of(embeddings)
    similar = similar_steps(context, embeddings)
    drawn = series.of(choice.measure)
    states = [one.status for one in similar.pairs]
    waiting = states.count(ResultStatus.QUEUED)
    return {
        "series": series,
        "drawn": drawn,
        "groups": grouped(series.measures, lambda row: row.measure),
        "cautions": cautions(embeddings),
        "figures": series_figures(series, drawn) if drawn else [],
        "similar": similar,
        "waiting": waiting,
        "asked": len(states) - states.count(None),
        "missing": states.count(None) + states.count(ResultStatus.FAILED),
        "similar_figures": similarity_figures(series, similar) if ResultStatus.READY in states and not waiting else [],
        "alignment_measures": list(ALIGNMENTS.values()),
    }


def _orders(choice: Choice, embeddings: Sequence[Embedding]) -> dict[str, str]:
    """The ways to the same embeddings in other orders, by the order's name; that of now is left out."""
    keys: dict[str, Callable[[Embedding], Any]] = {
        "layer": lambda one: (one.encoding_id or "", one.layer or 0),
        "name": lambda one: natural_order(one.name),
        "age": lambda one: (one.created_at, one.layer or 0, one.id),
    }
    ordered = {name: [one.id for one in sorted(embeddings, key=key)] for name, key in keys.items()}
    if any(one.layer is None for one in embeddings):
        del ordered["layer"]
    return {name: choice.url(ids=ids) for name, ids in ordered.items() if ids != choice.ids}


@router.post("/alignments")
def align(context: ContextDep, choice: ChoiceDep) -> Response:
    """Have these embeddings compared row by row, and go to where the numbers appear."""
    embeddings = get_compared(context, choice.ids)
    request_alignments(context, series_pairs(embeddings) if choice.series else pairs_of(embeddings, Against.FIRST))
    return see(f"{choice.url()}#alignments")


@router.get("/rows")
def show_moved_rows(
    request: Request, context: ContextDep, choice: ChoiceDep, by: MovedBy = MovedBy.NEIGHBORS
) -> Response:
    """The rows that moved most between two embeddings."""
    moved, names = _moved(context, choice)
    rows = moved.most_moved(by)[:SHOWN_ROWS]
    shown = {
        "choice": choice,
        "names": names,
        "moved": moved,
        "by": by if moved.has_residuals else MovedBy.NEIGHBORS,
        "rows": rows,
        "marks": [write_rows(sorted(each)) for each in ([one.row for one in rows], [one.other_row for one in rows])],
        "figures": moved_figures(moved),
    }
    return render(request, "embeddings/moved_rows.html", shown)


@router.post("/rows")
def find_moved_rows(context: ContextDep, choice: ChoiceDep) -> Response:
    """Have two embeddings compared row by row, and go to where the rows appear."""
    request_alignments(context, pairs_of(get_compared(context, choice.ids, LEAST), Against.FIRST))
    return see(choice.url("/compare/rows"))


@router.get("/rows/figures/{slug}.{kind}")
def show_rows_figure(context: ContextDep, slug: str, kind: FileKind, choice: ChoiceDep) -> Response:
    """A figure of the rows that moved."""
    return figure_file(moved_figures(_moved(context, choice)[0]), slug, kind)


@router.get("/rows.csv")
def show_rows_table(context: ContextDep, choice: ChoiceDep, by: MovedBy = MovedBy.NEIGHBORS) -> Response:
    """All rows that two embeddings share, the one that moved most first."""
    return csv_file(table_of_rows(_moved(context, choice)[0].most_moved(by)), "moved-rows")


def _moved(context: Context, choice: Choice) -> tuple[MovedRows, list[str]]:
    first, other = get_compared(context, choice.ids, LEAST)
    return moved_rows_of(context, first, other), distinct_names([first, other])


@router.get("/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, slug: str, choice: ChoiceDep) -> Response:
    """A figure with its numbers, on a page of its own, of which the comparison takes them when asked."""
    figure = find_figure(chosen_figures(context, choice, slug), slug)
    return render(request, "embeddings/compare_figure.html", {"choice": choice, "figure": figure})


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, slug: str, kind: FileKind, choice: ChoiceDep) -> Response:
    """A figure with all of them in it."""
    return figure_file(chosen_figures(context, choice, slug), slug, kind)


@router.get("/measurements.csv")
def show_measurements(context: ContextDep, choice: ChoiceDep) -> Response:
    """All values and differences, a row for each measure of each embedding."""
    embeddings = get_compared(context, choice.ids)
    if choice.series:
        return csv_file(table_of_series(series_of(embeddings)), "series")
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
