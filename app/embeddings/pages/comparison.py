"""Pages that compare embeddings: measures, differences, alignments, and the rows that moved."""

from collections.abc import Callable
from itertools import groupby
from statistics import fmean, median
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import select

from app.context import MAX_CHOICES, Context
from app.core.names import natural_sort_key
from app.db.models import Embedding, Encoding, ResultStatus
from app.embeddings.alignments import (
    MovedBy,
    MovedRow,
    MovedRows,
    arrange_steps,
    find_alignments,
    find_moved_rows,
    find_row_matching,
    pair_steps,
    request_alignments,
)
from app.embeddings.choice import ChoiceDep, ComparisonChoice, comparison_figures, overlaid_figures
from app.embeddings.comparison import (
    MAX_COMPARED,
    MIN_COMPARED,
    BaselineChoice,
    EmbeddingComparison,
    get_embeddings_to_compare,
    get_measured_embeddings,
    make_names_distinct,
    pair_with_baselines,
    suggest_order,
)
from app.embeddings.figures.comparison import moved_figures, similarity_figures, step_figures
from app.embeddings.figures.report import HEADINGS_BY_FIGURE, HEAVY_FIGURES
from app.embeddings.figures.sample_size import SAMPLE_SIZE
from app.embeddings.library import list_newest_measured
from app.embeddings.readings import group_items
from app.embeddings.selections import format_rows
from app.embeddings.service import list_stored_figures
from app.figures.figure import FigureTable
from app.figures.palette import SERIES
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, csv_file, figure_file, find_figure, redirect_to, render, render_figure
from isotropy.catalog import ALIGNMENTS

router = APIRouter(prefix="/compare")
MAX_MOVED_ROWS = 100  # Rows that the page of moved rows lists; the CSV file has all
MAX_MOVED_ROWS_IN_COMPARISON = 10


@router.get("")
def show_comparison(
    request: Request,
    context: ContextDep,
    choice: ChoiceDep,
    chosen_in: Annotated[Literal["library", ""], Query(alias="from")] = "",
) -> Response:
    """Show the comparison, or how to add embeddings to fewer than two. With ``chosen_in``, sort them first."""
    embeddings = get_measured_embeddings(context, choice.ids)
    if chosen_in:
        return redirect_to(choice.url(ids=[embedding.id for embedding in suggest_order(embeddings)]))
    comparison = EmbeddingComparison(embeddings)
    values: dict[str, Any] = {
        "choice": choice,
        "comparison": comparison,
        "embeddings": embeddings,
        "names": comparison.names,
        "colors": SERIES,
        "offered": _offer_embeddings(context, choice),
        "max_compared": MAX_COMPARED,
        "orders": _list_order_urls(choice, embeddings),
    }
    if len(embeddings) >= MIN_COMPARED:
        listed_measures = [measure for measure in comparison.measures if measure.differs or not choice.differing]
        values |= {
            "groups": group_items(listed_measures, lambda compared: compared.measure),
            "all_groups": group_items(comparison.measures, lambda compared: compared.measure),
            "cautions": comparison.cautions,
            "alignment_measures": list(ALIGNMENTS.values()),
            **_read_alignments(context, comparison),
        }
        if comparison.is_ordered:
            drawn_measure, alignments = comparison.get_measure(choice.measure), values["alignments"]
            steps = arrange_steps(embeddings, alignments)
            ready = any(pair.status is ResultStatus.READY for pair in alignments)
            values |= {
                "drawn": drawn_measure,
                "step_figures": step_figures(comparison, drawn_measure) if drawn_measure else [],
                "similarity_figures": similarity_figures(comparison, steps) if ready else [],
            }
        if comparison.fits_side_by_side:
            figures = overlaid_figures(context, embeddings, SAMPLE_SIZE)
            stored_slugs = {slug for embedding in embeddings for slug in list_stored_figures(context, embedding.id, ())}
            values["figures_by_heading"] = {
                heading: list(group)
                for heading, group in groupby(figures, lambda figure: HEADINGS_BY_FIGURE[figure.slug])
            }
            # These take megabytes for several embeddings, so they load from their own pages.
            values["later"] = [figure for figure in HEAVY_FIGURES if figure.needs in stored_slugs and not figure.single]
    return render(request, "embeddings/compare.html", values)


def _read_alignments(context: Context, comparison: EmbeddingComparison) -> dict[str, Any]:
    """Return the template's values about alignments, and about the rows that moved most from the first to the last."""
    embeddings = comparison.embeddings
    pairs = pair_steps(embeddings) if comparison.is_ordered else pair_with_baselines(embeddings, BaselineChoice.FIRST)
    alignments = find_alignments(context, pairs)
    statuses = [pair.status for pair in alignments]
    ends = embeddings[0], embeddings[-1]
    moved = find_moved_rows(context, *ends) if find_row_matching(*ends) is not None else None
    return {
        "alignments": alignments,
        "waiting": statuses.count(ResultStatus.QUEUED),
        "requested": len(statuses) - statuses.count(None),
        "missing": statuses.count(None) + statuses.count(ResultStatus.FAILED),
        "moved": moved,
        "moved_rows": moved.rows_by_movement(MovedBy.NEIGHBORS)[:MAX_MOVED_ROWS_IN_COMPARISON] if moved else [],
        "moved_url": ComparisonChoice([embedding.id for embedding in ends]).url("/compare/rows"),
    }


def _list_order_urls(choice: ComparisonChoice, embeddings: list[Embedding]) -> dict[str, str]:
    """Return URLs of the same embeddings in other orders, by the name of the order."""
    keys: dict[str, Callable[[Embedding], Any]] = {
        "layer": lambda embedding: (embedding.encoding_id or "", embedding.layer or 0),
        "name": lambda embedding: natural_sort_key(embedding.name),
        "age": lambda embedding: (embedding.created_at, embedding.layer or 0, embedding.id),
    }
    if any(embedding.layer is None for embedding in embeddings):
        del keys["layer"]
    ordered = {name: [embedding.id for embedding in sorted(embeddings, key=key)] for name, key in keys.items()}
    return {name: choice.url(ids=ids) for name, ids in ordered.items() if ids != choice.ids}


@router.post("/alignments")
def align(context: ContextDep, choice: ChoiceDep) -> Response:
    comparison = EmbeddingComparison(get_embeddings_to_compare(context, choice.ids))
    embeddings = comparison.embeddings
    pairs = pair_steps(embeddings) if comparison.is_ordered else pair_with_baselines(embeddings, BaselineChoice.FIRST)
    request_alignments(context, pairs)
    return redirect_to(f"{choice.url()}#alignments")


@router.get("/rows")
def show_moved_rows(
    request: Request, context: ContextDep, choice: ChoiceDep, by: MovedBy = MovedBy.NEIGHBORS
) -> Response:
    moved, names = _find_moved(context, choice)
    rows = moved.rows_by_movement(by)[:MAX_MOVED_ROWS]
    values = {
        "choice": choice,
        "names": names,
        "moved": moved,
        "by": by if moved.has_residuals else MovedBy.NEIGHBORS,
        "rows": rows,
        "marks": [format_rows([row.row for row in rows]), format_rows([row.other_row for row in rows])],
        "figures": moved_figures(moved),
        "kept_on_average": fmean(row.neighbors_kept for row in moved.rows) if moved.rows else 0.0,
        "kept_none": sum(row.neighbors_kept == 0 for row in moved.rows),
        "median_residual": median(row.residual or 0.0 for row in moved.rows) if moved.has_residuals else None,
    }
    return render(request, "embeddings/moved_rows.html", values)


@router.post("/rows")
def request_moved_rows(context: ContextDep, choice: ChoiceDep) -> Response:
    embeddings = get_embeddings_to_compare(context, choice.ids, MIN_COMPARED)
    request_alignments(context, pair_with_baselines(embeddings, BaselineChoice.FIRST))
    return redirect_to(choice.url("/compare/rows"))


@router.get("/rows/figures/{slug}.{kind}")
def show_rows_figure(context: ContextDep, slug: str, kind: FileKind, choice: ChoiceDep) -> Response:
    return figure_file(moved_figures(_find_moved(context, choice)[0]), slug, kind)


@router.get("/rows.csv")
def show_rows_table(context: ContextDep, choice: ChoiceDep, by: MovedBy = MovedBy.NEIGHBORS) -> Response:
    moved, _ = _find_moved(context, choice)
    rows = [list(row) for row in moved.rows_by_movement(by)]
    return csv_file(FigureTable(list(MovedRow._fields), rows), "moved-rows")


def _find_moved(context: Context, choice: ComparisonChoice) -> tuple[MovedRows, list[str]]:
    """Return how far rows move between the two chosen embeddings, and distinct names of these."""
    first, counterpart = get_embeddings_to_compare(context, choice.ids, MIN_COMPARED)
    return find_moved_rows(context, first, counterpart), make_names_distinct([first, counterpart])


@router.get("/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, slug: str, choice: ChoiceDep) -> Response:
    """Show a figure with its numbers on its own page, from which the comparison loads it."""
    figure = find_figure(comparison_figures(context, choice, slug), slug)
    crumbs = [("Compare embeddings", choice.url())]
    return render_figure(request, figure, "compare", crumbs, choice.query, base="/compare", name="comparison")


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, slug: str, kind: FileKind, choice: ChoiceDep) -> Response:
    return figure_file(comparison_figures(context, choice, slug), slug, kind)


@router.get("/measurements.csv")
def show_measurements(context: ContextDep, choice: ChoiceDep) -> Response:
    return csv_file(EmbeddingComparison(get_embeddings_to_compare(context, choice.ids)).table, "comparison")


def _offer_embeddings(context: Context, choice: ComparisonChoice) -> dict[str, list[Embedding]]:
    """Return the embeddings that can be added, by heading: first those that are no layers, then layers by encoding."""
    with context.sessions() as session:
        names = dict(session.execute(select(Encoding.id, Encoding.name)).all())
    offered: dict[str, list[Embedding]] = {}
    for embedding in list_newest_measured(context, MAX_CHOICES):
        if embedding.id not in choice.ids:
            name = names.get(embedding.encoding_id or "")
            offered.setdefault(f"Layers of {name}" if name else "Uploaded and made", []).append(embedding)
    return offered
