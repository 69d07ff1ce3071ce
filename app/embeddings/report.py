"""The report of an embedding: the values of each tab, findings with their remedies, and figures."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Request
from pydantic import BaseModel, Field

from app.context import Context
from app.db.models import FULL_FINDINGS, Embedding, PostProcessing
from app.db.point_map import MAP
from app.db.task import TaskResults
from app.embeddings.decision import find_deciding_task
from app.embeddings.figures.dimensions import ACTIVATION, mark_dimensions
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import (
    DATA_BY_FIGURE,
    FIGURES_BY_MEASURE,
    HEADINGS_BY_FIGURE,
    HEAVY_FIGURES,
    LARGE_FIGURES,
    draw_figures,
)
from app.embeddings.figures.sample_size import SAMPLE_SIZE
from app.embeddings.headline import write_headline
from app.embeddings.lookups import find_text_search
from app.embeddings.point_map import explain_no_layout, find_map
from app.embeddings.readings import find_hubs, group_readings, list_bands, list_headlines, list_references
from app.embeddings.remedies import describe_trial
from app.embeddings.selections import find_selections, format_rows, parse_rows
from app.embeddings.service import get_figure_data, list_stored_figures
from app.embeddings.zeta_curves import ShrinkageDep, ShrinkageQuery, read_shrinkage
from app.figures.figure import Figure
from app.web.responses import Tab, chosen_tab
from isoscope.core.effects import effect_sentence
from isotropy.catalog import FINDINGS, METHODS, MethodEntry

# The figure data that a tab reads. The projection is a megabyte: it is loaded from its own page.
TAB_DATA = {"overview": (MAP,), "map": (MAP,), "details": (SAMPLE_SIZE,)}
TABS = (
    Tab("overview", "Overview"),
    Tab("map", "Map & neighbors"),
    Tab("task", "Task", "/tasks"),
    Tab("details", "Details"),
)
# Maximum number of a finding's rows that the map marks.
MAX_MARKED = 5000


class ReportQuery(NamedTuple):
    """Query of a report. An empty string selects nothing, or the default."""

    shrinkage: ShrinkageQuery
    tab: str = TABS[0].slug
    finding: str = ""  # Slug of the finding whose rows and dimensions are marked
    row: str = ""  # Number or name of the row to find on the map
    text: str = ""  # Text to find the nearest rows of
    select: str = ""  # Ranges of rows selected on the map: see ``parse_rows``
    color: str = ""
    layout: str = ""


def build_report(
    context: Context, embedding: Embedding, query: ReportQuery, *, standalone: bool = False
) -> dict[str, Any]:
    """Return the values of the report's template: those of all tabs if ``standalone``, else of the query's tab."""
    slugs = set(DATA_BY_FIGURE.values()) if standalone else set(TAB_DATA.get(query.tab, ()))
    stored = list_stored_figures(context, embedding.id, slugs | ({FULL_FINDINGS} if query.finding else set()))
    data = {slug: figure_data for slug, figure_data in stored.items() if figure_data is not None}
    marked = find_marked_finding(embedding, data.pop(FULL_FINDINGS, {}), query.finding)
    point_map = find_map(context, embedding, data.pop(MAP, None), query.layout)
    figures = draw_figures([_make_subject(embedding, data)])
    figures_by_heading: dict[str, list[Figure]] = {}
    for figure in figures if standalone or query.tab == "details" else ():
        figures_by_heading.setdefault(HEADINGS_BY_FIGURE[figure.slug], []).append(_mark_figure(figure, marked))
    # Findings link only to figures that are there, or load later.
    anchors = {f"figure-{figure.slug}" for figure in figures if not figure.empty}
    anchors |= {anchor for anchor, slug in (("map", MAP), (f"figure-{SAMPLE_SIZE}", SAMPLE_SIZE)) if slug in stored}
    marked_rows = ""
    if query.tab == "map" and marked:
        marked_rows = format_rows(marked.rows)
    elif query.tab == "map" and query.select.strip():
        marked_rows = format_rows(parse_rows(query.select))
    deciding_task = find_deciding_task(context, embedding.id) if standalone or query.tab == "overview" else None
    results = deciding_task.results if deciding_task else None
    return {
        "headline": write_headline(embedding),
        "deciding_task": deciding_task,
        "findings": list_report_findings(embedding, find_selections(context, embedding), anchors, results),
        "marked": marked,
        "marked_rows": marked_rows,
        "headlines": list_headlines(embedding),
        "groups": group_readings(embedding),
        "references": list_references() if standalone or query.tab == "details" else {},
        "bands": list_bands(),
        "drawn": FIGURES_BY_MEASURE,
        "tabs": TABS,
        "tab": query.tab,
        "later": []
        if standalone
        else [record for record in HEAVY_FIGURES if record.needs in stored and (record.single or MAP not in stored)],
        "map": point_map,
        "layout_note": explain_no_layout(context, embedding.id, point_map)
        if point_map and not standalone
        else ("", False),
        "search": point_map.search(query.row, query.color) if point_map and query.row.strip() else None,
        "color": query.color,
        "older_map": MAP not in stored,
        "figures_by_heading": figures_by_heading,
        "large": LARGE_FIGURES,
        "shrinkage": read_shrinkage(context, embedding, query.shrinkage),
        "near_text": find_text_search(context, embedding, query.text),
        "hubs": find_hubs(embedding),
        "hubs_on_map": MAP in stored,
        "fitted": describe_fit(context, embedding),
        "standalone": standalone,
        "files": None,
    }


def report_figures(
    context: Context, embedding: Embedding, slug: str, query: ShrinkageQuery, finding: str = ""
) -> list[Figure]:
    """Return a list of the figure of a slug, empty if there is none. Mark the dimensions of ``finding``, a slug."""
    if slug == "zeta":
        curve = read_shrinkage(context, embedding, query).figure
        return [curve] if curve else []
    data = get_figure_data(context, embedding.id, DATA_BY_FIGURE.get(slug, slug), *([FULL_FINDINGS] if finding else []))
    marked = find_marked_finding(embedding, data.pop(FULL_FINDINGS, {}), finding)
    return [_mark_figure(figure, marked) for figure in draw_figures([_make_subject(embedding, data)], slug)]


def _read_query(
    request: Request,
    shrinkage: ShrinkageDep,
    tab: str = "",
    finding: str = "",
    row: str = "",
    text: str = "",
    select: str = "",
    color: str = "",
    layout: str = "",
) -> ReportQuery:
    """Read the query. Without ``tab``, choose the tab whose form sends these parameters."""
    parameters = request.query_params.keys()
    form_tab = "details" if parameters & {"zeta", "rows", "source"} else ""
    form_tab = "map" if parameters & {"row", "text", "select", "color", "layout"} else form_tab
    return ReportQuery(shrinkage, chosen_tab(TABS, tab, form_tab), finding, row, text, select, color, layout)


ReportDep = Annotated[ReportQuery, Depends(_read_query)]


class FindingEffect(BaseModel):
    """A measure before and after mending the finding; null where undefined or unknown."""

    measure: str
    before: float | None
    before_se: float | None
    after: float | None
    after_se: float | None


class EmbeddingFinding(BaseModel):
    """Something wrong with an embedding."""

    slug: str
    severity: Annotated[
        Literal["note", "warning", "error"], Field(description="A warning changes the scores; a note does not.")
    ]
    title: str
    evidence: str
    rows: Annotated[list[int], Field(description="Rows of the file, from 0; the first 100.")]
    row_count: Annotated[int, Field(description="Total number of rows.")]
    names: Annotated[list[str] | None, Field(description="The names of `rows`; null where rows have none.")]
    dimensions: Annotated[list[int], Field(description="Dimensions, from 0; the first 100.")] = []
    dimension_count: Annotated[int, Field(description="Total number of dimensions.")] = 0
    dimension_names: Annotated[
        list[str] | None, Field(description="The names of `dimensions`; null where dimensions have none.")
    ] = None
    effect: FindingEffect
    advice: str


class FindingLink(NamedTuple):
    """A figure that shows a finding: its tab, its anchor there, and the text of the link."""

    tab: str
    anchor: str
    text: str


DIMENSIONS_LINK = FindingLink("details", "figure-activation", "See them by dimension")
MAP_LINK = FindingLink("map", "map", "See them on the map")
SMALLER_CLOUDS_LINK = MAP_LINK._replace(text="See the smaller clouds on the map")
# Links for findings that name neither rows nor dimensions.
FINDING_LINKS = {
    "collapsed": FindingLink("details", "figure-spectrum", "See the spectrum"),
    "common_mean": FindingLink("details", "figure-cosines", "See the cosines"),
    "too_few_rows": FindingLink("details", "figure-sample_size", "See how many rows it takes"),
}
# The finding whose rows are not measured, so that no map has them.
UNMAPPED_FINDING = "not_finite"


class ReportFinding(NamedTuple):
    """A finding with what can be done about it."""

    finding: EmbeddingFinding
    effect: str
    is_removable: bool  # Whether the embedding can be measured without its rows or dimensions
    measured_without: str | None  # Id of the selection that was measured without them
    method: MethodEntry | None
    trial: str  # How the method scored in the deciding task; empty if it was not judged
    link: FindingLink | None


def list_report_findings(
    embedding: Embedding, selections: Mapping[str, str], anchors: Collection[str], results: TaskResults | None
) -> list[ReportFinding]:
    """Return the findings, the most severe first, which is their stored order.

    ``selections``: ids of selections by the finding that they leave out. ``anchors``: those of the report's figures.
    """
    findings = []
    for finding in map(EmbeddingFinding.model_validate, embedding.findings):
        link = FINDING_LINKS.get(finding.slug)
        if finding.dimension_count:
            link = DIMENSIONS_LINK
        elif finding.row_count and finding.slug != UNMAPPED_FINDING:
            link = SMALLER_CLOUDS_LINK if finding.slug == "mixed_clouds" else MAP_LINK
        entry, effect = FINDINGS.get(finding.slug), finding.effect
        findings.append(
            ReportFinding(
                finding,
                effect_sentence(finding.slug, effect.measure, effect.before, effect.after, effect.after_se),
                is_removable=entry is not None and entry.removed_nouns is not None,
                measured_without=selections.get(finding.slug),
                method=METHODS.get(entry.method) if entry is not None else None,
                trial=describe_trial(results, entry.method) if entry is not None else "",
                link=link if link and link.anchor in anchors else None,
            )
        )
    return findings


class MarkedFinding(NamedTuple):
    """A finding whose rows or dimensions a figure marks."""

    slug: str
    title: str
    rows: list[int]
    row_count: int
    dimensions: list[int]


def find_marked_finding(embedding: Embedding, full_findings: Mapping[str, Any], slug: str) -> MarkedFinding | None:
    """Return the finding of a slug with its rows (at most MAX_MARKED) and dimensions; None if there is no such finding.

    ``full_findings``: by slug, findings with more rows and dimensions than the embedding itself stores.
    """
    for finding in embedding.findings:
        if finding["slug"] == slug:
            full_finding = full_findings.get(slug, finding)
            rows, dimensions = full_finding["rows"][:MAX_MARKED], full_finding.get("dimensions", [])
            return MarkedFinding(slug, finding["title"], rows, finding["row_count"], dimensions)
    return None


def _make_subject(embedding: Embedding, data: Mapping[str, dict[str, Any]]) -> Subject:
    flagged = {dimension for finding in embedding.findings for dimension in finding.get("dimensions", [])}
    return Subject.from_embedding(embedding, data, sorted(flagged))


def _mark_figure(figure: Figure, marked: MarkedFinding | None) -> Figure:
    if marked is None or not marked.dimensions or figure.slug != ACTIVATION or figure.empty:
        return figure
    return mark_dimensions(figure, marked.dimensions, marked.title)


class FittedNote(NamedTuple):
    """How many of an embedding's rows its method was fitted on, and the score of the other rows."""

    fit_rows: int
    rows: int
    isoscore: float | None  # Bias-corrected, on held-out rows; None if it is not stored or undefined
    url: str  # URL of the trial or the task; empty if its embedding is gone
    by_task: bool


def describe_fit(context: Context, embedding: Embedding) -> FittedNote | None:
    """Return the note of an embedding that a trial or a task made by fitting a method; None for others."""
    provenance = embedding.provenance or {}
    if "fit_rows" not in provenance:
        return None
    by_task = "which" in provenance  # only tasks store which variant they made
    url = ""
    if embedding.source_id is not None and by_task:
        url = f"/tasks/{embedding.made_by_id}"
    elif embedding.source_id is not None and provenance["method"] in METHODS:
        trial_query = urlencode({"method": provenance["method"], **provenance["parameters"]})
        url = f"/embeddings/{embedding.source_id}/lab?{trial_query}"
    trial = context.get(PostProcessing, embedding.made_by_id) if embedding.made_by_id is not None else None
    after = ((trial.results if trial else None) or {}).get("after", {})
    isoscore = after.get("isoscore_unbiased", {}).get("value")
    return FittedNote(provenance["fit_rows"], embedding.n_measured, isoscore, url, by_task)
