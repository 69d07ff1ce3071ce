"""Reports of embeddings: what the page shows, and each figure."""

from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query, Request

from app.context import Context
from app.db.models import BLAMED, Embedding, PostProcessing
from app.db.point_map import MAP
from app.embeddings.figures.dimensions import ACTIVATION, mark_dimensions
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import DRAWN, FIGURES, HEAVY, NEEDS, figures_of, tabs_of_figures
from app.embeddings.figures.sample_size import SAMPLE_SIZE
from app.embeddings.findings import Marked, find_marked, shown_findings
from app.embeddings.headline import headline_of
from app.embeddings.lookups import find_text_search, read_neighbors
from app.embeddings.point_map import find_map
from app.embeddings.readings import groups_of, headlines_of, hubs_of, reference_values
from app.embeddings.selections import read_rows, selections_of, write_rows
from app.embeddings.service import get_figure_data, get_figures_stored
from app.embeddings.zeta_curves import ShrinkageDep, ShrinkageQuery, read_shrinkage
from app.figures.figure import Figure
from app.web.responses import Tab, chosen_tab
from isotropy.catalog import METHODS

LARGE = frozenset(one.slug for one in FIGURES if one.large)
MEASURED = ("overview", "measures")
"""The tabs that show measures with reference values."""
READ_AT_ONCE = {"overview": (MAP,), "map": (MAP, SAMPLE_SIZE), "neighbors": ("neighbours", MAP)}
"""What a tab reads of ``FigureData``. The projection is a megabyte: its own page has it, and fills its place."""
TABS = (
    Tab("overview", "Overview"),
    Tab("map", "Map and rows"),
    Tab("directions", "Directions"),
    Tab("neighbors", "Neighbors"),
    Tab("task", "Task", "/tasks"),
    Tab("lab", "Post-processing", "/lab"),
    Tab("measures", "All measures"),
    Tab("source", "Source"),
)
"""The parts of a report."""


class ReportQuery(NamedTuple):
    """What the URL says of a report: how the shrinkage is read, whose neighbors are shown, which part, which row."""

    shrinkage: ShrinkageQuery
    name: str | None
    tab: str = TABS[0].slug
    finding: str = ""
    """Slug of the finding whose rows or dimensions are marked."""
    row: str = ""
    """Number or name of a row to be shown on the map."""
    text: str = ""
    """A text whose nearest rows are shown."""
    select: str = ""
    """Rows that are selected on the map, as runs: see ``row_runs``."""
    color: str = ""
    """What the rows on the map are colored by."""


def report_of(context: Context, embedding: Embedding, query: ReportQuery, *, whole: bool = False) -> dict[str, Any]:
    """What the template of the report shows; the projection only with ``whole``, else whether there is one."""
    read = {*NEEDS.values()} | {"neighbours"} if whole else set(READ_AT_ONCE.get(query.tab, ()))
    stored = get_figures_stored(context, embedding.id, read | ({BLAMED} if query.finding else set()))
    data = {slug: one for slug, one in stored.items() if one is not None}
    marked = find_marked(embedding, data.pop(BLAMED, {}), query.finding)
    found_map = find_map(context, embedding, data.pop(MAP, None))
    neighbors = read_neighbors(data.get("neighbours"), query.name)
    figures = figures_of([Subject.from_embedding(embedding, data)])
    later = [] if whole else [one for one in HEAVY if one.needs in stored]
    tab_of = tabs_of_figures()
    shown = [one for one in figures if whole or tab_of[one.slug] == query.tab]
    anchors = {f"figure-{one.slug}" for one in figures if not one.empty}
    anchors |= {anchor for anchor, slug in (("map", MAP), ("sample-size", SAMPLE_SIZE)) if slug in stored}
    return {
        "headline": headline_of(embedding),
        "findings": shown_findings(embedding, selections_of(context, embedding), anchors),
        "marked": marked,
        "marked_rows": _selected(marked, query) if query.tab == "map" else "",
        "headlines": headlines_of(embedding),
        "groups": groups_of(embedding),
        "references": reference_values() if whole or query.tab in MEASURED else {},
        "drawn": DRAWN,
        "tab_of": tab_of,
        "tabs": TABS,
        "tab": query.tab,
        "later": later,
        "map": found_map,
        "search": found_map.search(query.row) if found_map and query.row.strip() else None,
        "color": query.color,
        "older_map": MAP not in stored,
        "sample_size": next((figure for figure in shown if figure.slug == SAMPLE_SIZE), None),
        "shape": [_marking(figure, marked) for figure in shown if figure.slug != SAMPLE_SIZE],
        "large": LARGE,
        "shrinkage": read_shrinkage(context, embedding, query.shrinkage),
        "neighbours": neighbors,
        "named_row": found_map.search(neighbors.unknown) if found_map and neighbors and neighbors.unknown else None,
        "near_text": find_text_search(context, embedding, query.text),
        "hubs": hubs_of(embedding),
        "hubs_on_map": MAP in stored,
        "fitted": fitted_note(embedding, made_by(context, embedding)),
        "standalone": False,
        "files": None,
    }


def _selected(marked: Marked | None, query: ReportQuery) -> str:
    """Return the runs of rows that the map selects: those of a finding, or those that the address names."""
    if marked:
        return write_rows(marked.rows)
    return write_rows(read_rows(query.select)) if query.select.strip() else ""


def _marking(figure: Figure, marked: Marked | None) -> Figure:
    if marked is None or not marked.dimensions or figure.slug != ACTIVATION or figure.empty:
        return figure
    return mark_dimensions(figure, marked.dimensions, marked.title)


def report_figures(
    context: Context, embedding: Embedding, slug: str, query: ShrinkageQuery, finding: str = ""
) -> list[Figure]:
    """Build the figure that is asked for, none if there is no such figure; only its data are read."""
    if slug == "zeta":
        curve = read_shrinkage(context, embedding, query).figure
        return [curve] if curve else []
    data = get_figure_data(context, embedding.id, NEEDS.get(slug, slug), *([BLAMED] if finding else []))
    marked = find_marked(embedding, data.pop(BLAMED, {}), finding)
    return [_marking(figure, marked) for figure in figures_of([Subject.from_embedding(embedding, data)], slug)]


def _report(
    request: Request,
    shrinkage: ShrinkageDep,
    name: Annotated[str | None, Query()] = None,
    tab: str = "",
    finding: str = "",
    row: str = "",
    text: str = "",
    select: str = "",
    color: str = "",
) -> ReportQuery:
    """A form of a part asks without the part's name: what it asks for tells the part."""
    asked = request.query_params.keys()
    usual = "neighbors" if name is not None else "directions" if asked & {"zeta", "rows", "source"} else ""
    usual = "map" if asked & {"row", "select", "color"} else usual
    return ReportQuery(shrinkage, name, chosen_tab(TABS, tab, usual), finding, row, text, select, color)


ReportDep = Annotated[ReportQuery, Depends(_report)]


def made_by(context: Context, embedding: Embedding) -> PostProcessing | None:
    """The trial that an embedding was made by, while its result is kept."""
    if embedding.made_by_id is None:
        return None
    found = context.get(PostProcessing, embedding.made_by_id)
    return found if found is not None and found.results is not None else None


class FittedNote(NamedTuple):
    """How many of its rows a method was fitted on, and what the others say."""

    fit_rows: int
    rows: int
    isoscore: float | None
    """Of rows held out, bias-corrected; None where that is not kept or is undefined."""
    url: str
    """Of the trial or the task; empty where its embedding is gone."""
    by_task: bool


def fitted_note(embedding: Embedding, trial: PostProcessing | None) -> FittedNote | None:
    """The note of an embedding that was made here by ``trial``, if that is kept; None where it was not made."""
    made = embedding.provenance
    if not made or "fit_rows" not in made:
        return None
    after = ((trial.results if trial else None) or {}).get("after", {})
    isoscore = after.get("isoscore_unbiased", {}).get("value")
    return FittedNote(made["fit_rows"], embedding.n_measured, isoscore, _origin_of(embedding), "which" in made)


def _origin_of(embedding: Embedding) -> str:
    made = embedding.provenance or {}
    if embedding.source_id is None:
        return ""
    if "which" in made:
        return f"/tasks/{embedding.made_by_id}"
    if made["method"] not in METHODS:
        return ""
    return f"/embeddings/{embedding.source_id}/lab?{urlencode({'method': made['method'], **made['parameters']})}"
