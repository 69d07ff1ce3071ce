"""Pages that compare runs of any experiments: figures, tables of means, differing settings."""

import re
from hashlib import blake2b
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query, Request, Response

from app.context import MAX_CHOICES, Context
from app.figures.labels import field_heading
from app.results.across import (
    AcrossDep,
    AcrossQuery,
    RunSelection,
    TableDep,
    conclude_across,
    describe_selection,
    draw_across,
    evaluation_titles,
    find_evaluation,
    group_evaluated_runs,
    list_cautions,
    list_drawable_fields,
    list_run_figure_slugs,
    list_scatter_fields,
    read_figure_across,
    select_runs,
    summarize_selection,
)
from app.results.api.across import TableFileKind, table_response
from app.results.figures.legend import Coloring
from app.results.figures.scatter_points import make_scatter_form
from app.results.figures.sweep_curves import WINDOWS
from app.results.labels import METRIC_AXES, TRAINING_MEASURES, title_of
from app.results.run_listing import RunQueryDep, encode_query, read_run_listing
from app.results.run_table import EXPERIMENT, REGULARIZER, SEED, TASK
from app.results.search.listing import RunQuery
from app.results.setting_comparison import compare_settings
from app.results.statistics.estimate import ErrorBar
from app.results.sweep_figures import SECTIONS, SweepDep, SweepQuery, group_by_section
from app.results.tables.printed import MAX_DECIMALS, print_summary
from app.results.tables.summary import TableColumns
from app.results.tables.texts import format_latex, format_markdown
from app.training.experiments import list_experiment_names
from app.training.run_actions import RUNS
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, figure_file, redirect_to, render, render_figure
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote_for_search

router = APIRouter(prefix="/compare/runs")

# A search for experiments by their ids, and nothing else.
EXPERIMENT_SEARCH = re.compile(r"experiment=[0-9a-f]{32}(,[0-9a-f]{32})*")
COLUMN_CHOICES = {
    TableColumns.PERFORMANCE: "performance",
    TableColumns.ISOTROPY: "IsoScore★",
    TableColumns.PERFORMANCE_AND_ISOTROPY: "performance and IsoScore★",
    TableColumns.METRICS: "all metrics",
}


@router.get("")
def show_runs(
    request: Request,
    context: ContextDep,
    query: AcrossDep,
    sweep_query: SweepDep,
    experiment: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Show the runs of a search; selected experiments become a search for them."""
    if experiment:
        searched_ids = query.q.removeprefix("experiment=").split(",") if EXPERIMENT_SEARCH.fullmatch(query.q) else []
        ids = dict.fromkeys([*searched_ids, *filter(None, experiment)])
        joined = ",".join(row_id if row_id.isalnum() else quote_for_search(row_id) for row_id in ids)
        return redirect_to(f"/compare/runs?{query.to_query_string(q=f'experiment={joined}')}")
    values: dict[str, Any] = {"query": query, "sweep_query": sweep_query}
    problem = None
    try:
        values |= _page_values(context, select_runs(context, query.q, query.group), query, sweep_query)
    except InvalidError as error:
        problem = error
        values["complaint"] = error
    return render(request, "results/compare_runs.html", values, problem)


@router.get("/list")
def list_runs(request: Request, context: ContextDep, query: RunQueryDep) -> Response:
    listing = read_run_listing(context, query, "/compare/runs/list", back="across")
    crumbs = [("Compare runs", f"/compare/runs{encode_query(RunQuery(listing.query.q))}")]
    values = {"section": "compare", "crumbs": crumbs, "listing": listing, "row_list": RUNS}
    return render(request, "results/run_list.html", values, listing.problem)


@router.get("/table.html")
def show_table_page(request: Request, context: ContextDep, query: AcrossDep, table_query: TableDep) -> Response:
    """Show the table of means on its own page, from which other pages load it."""
    selection = select_runs(context, query.q, query.group)
    printed = print_summary(summarize_selection(context, selection, table_query.columns), table_query.style)
    values = {
        "query": query,
        "hidden_fields": parse_qsl(query.to_query_string()),
        "table": table_query,
        "printed": printed,
        "texts": {"LaTeX": ("tex", format_latex(printed)), "Markdown": ("md", format_markdown(printed))},
        "files": _join_queries(query.to_query_string(on=""), table_query.to_query_string()),
        "columns": COLUMN_CHOICES,
        "max_decimals": MAX_DECIMALS,
    }
    return render(request, "results/compare_table.html", values)


@router.get("/table.{kind}")
def show_table(context: ContextDep, kind: TableFileKind, query: AcrossDep, table_query: TableDep) -> Response:
    summary = summarize_selection(context, select_runs(context, query.q, query.group), table_query.columns)
    return table_response(summary, kind, table_query.style)


@router.get("/figures/{slug}.html")
def show_figure_page(
    request: Request, context: ContextDep, slug: str, query: AcrossDep, sweep_query: SweepDep
) -> Response:
    figure = read_figure_across(context, select_runs(context, query.q, query.group), slug, query.on, sweep_query)
    figure_query = _join_queries(query.to_query_string(), sweep_query.to_query_string())
    crumbs = [("Compare runs", f"/compare/runs?{figure_query}")]
    return render_figure(request, figure, "compare", crumbs, figure_query, base="/compare/runs", name="runs")


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, slug: str, kind: FileKind, query: AcrossDep, sweep_query: SweepDep) -> Response:
    selection = select_runs(context, query.q, query.group)
    return figure_file([read_figure_across(context, selection, slug, query.on, sweep_query)], slug, kind)


def _page_values(
    context: Context, selection: RunSelection, query: AcrossQuery, sweep_query: SweepQuery
) -> dict[str, Any]:
    run_table = selection.table
    figure_slugs = list_run_figure_slugs(run_table)
    names = list_experiment_names(context, MAX_CHOICES) if EXPERIMENT_SEARCH.fullmatch(query.q) else {}
    candidates = {*run_table.varying_fields, TASK, EXPERIMENT, REGULARIZER, SEED}
    choices = {*run_table.differing_fields} & candidates | {*selection.fields}
    return {
        "selection": selection,
        "selection_note": describe_selection(selection),
        "list_url": f"/compare/runs/list{encode_query(RunQuery(query.q))}",
        "runs_query": query.to_query_string(),
        # Figures in the browser's cache are valid only for the same runs.
        "key": blake2b(query.to_query_string().encode(), digest_size=6).hexdigest(),
        "cautions": list_cautions(selection, query.on),
        "evaluations": evaluation_titles(run_table),
        "on": find_evaluation(run_table, query.on).key if figure_slugs else "",
        "figures": group_by_section(figure_slugs),
        "figure_sections": SECTIONS,
        **(_figure_values(context, selection, query.on, sweep_query) if figure_slugs else {}),
        "groupable": {field: field_heading(field) for field in run_table.groupable_fields if field in choices},
        "settings": compare_settings(run_table),
        "head": field_heading,
        "more_experiments": {
            row_id: name for row_id, name in names.items() if row_id not in run_table.experiment_names
        },
        "hidden_fields": parse_qsl(_join_queries(query.to_query_string(), sweep_query.to_query_string())),
        "search_hidden_fields": parse_qsl(sweep_query.to_query_string()),
        "figure_hidden_fields": parse_qsl(query.to_query_string()),
    }


def _figure_values(context: Context, selection: RunSelection, on: str, sweep_query: SweepQuery) -> dict[str, Any]:
    sweep = group_evaluated_runs(selection, on)
    fields = list_scatter_fields(selection, sweep_query.scatters[0], sweep_query)
    scatter_table = group_evaluated_runs(selection, on, fields) if fields else sweep
    metric = sweep.runs[0].config.metric
    return {
        "sweep": sweep,
        "scatters": [draw_across(context, scatter_table, slug, sweep_query) for slug in sweep_query.scatters],
        "errors": ErrorBar,
        "form": make_scatter_form(sweep, metric, sweep_query.style, list_drawable_fields(selection.table)),
        "coloring": Coloring(sweep, sweep_query.style.color),
        "conclusion": conclude_across(context, selection, on),
        "metric_axis": METRIC_AXES[metric],
        "measure_titles": {measure: title_of(measure) for measure in TRAINING_MEASURES},
        "windows": WINDOWS,
    }


def _join_queries(*queries: str) -> str:
    return "&".join(query for query in queries if query)
