"""Runs of any experiments read together: figures, tables of means, and the settings that differ."""

import re
from hashlib import blake2b
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query, Request, Response

from app.context import OFFERED, Context
from app.figures.labels import head
from app.results.across import (
    AcrossDep,
    AcrossQuery,
    RunSelection,
    TableDep,
    TableQuery,
    conclude_across,
    describe_selection,
    draw_across,
    drawable_fields,
    evaluation_words,
    fields_of_scatter,
    find_evaluation,
    list_cautions,
    list_figures_across,
    read_figure_across,
    select_runs,
    summarize,
    table_on,
)
from app.results.api.across import TableFile, table_file
from app.results.figures.legend import Colouring
from app.results.figures.scatter_points import scatter_form
from app.results.figures.sweep_curves import WINDOWS
from app.results.labels import SCALES, WATCHED, title_of
from app.results.run_listing import RunQueryDep, encode_query, read_run_listing
from app.results.run_table import EXPERIMENT, REGULARIZER, SEED, TASK, compare_settings
from app.results.search.listing import RunQuery
from app.results.statistics.estimate import Error
from app.results.sweep_figures import SECTIONS, SweepDep, SweepQuery, by_section
from app.results.tables.printed import MOST_DECIMALS, printed
from app.results.tables.summary import Shown
from app.results.tables.texts import latex, markdown
from app.training.experiments import list_names
from app.training.run_actions import RUNS
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, figure_file, render, see
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quoted

router = APIRouter(prefix="/compare/runs")

OF_EXPERIMENTS = re.compile(r"experiment=[0-9a-f]{32}(,[0-9a-f]{32})*")
COLUMNS = {
    Shown.PERFORMANCE: "performance",
    Shown.ISOTROPY: "IsoScore★",
    Shown.BOTH: "performance and IsoScore★",
    Shown.METRICS: "all metrics",
}


@router.get("")
def show_runs(
    request: Request,
    context: ContextDep,
    query: AcrossDep,
    look: SweepDep,
    table: TableDep,
    experiment: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """The runs that are searched for; experiments that were ticked become a search for them."""
    if experiment:
        return see(f"/compare/runs?{query.encoded(q=_search_for(query.q, experiment))}")
    shown: dict[str, Any] = {"query": query, "look": look, "at": "/compare/runs"}
    problem = None
    try:
        shown |= _shown(context, select_runs(context, query.q, query.group), query, look, table)
    except InvalidError as error:
        shown["complaint"] = problem = error
    return render(request, "results/compare_runs.html", shown, problem)


@router.get("/list")
def list_runs(request: Request, context: ContextDep, wanted: RunQueryDep) -> Response:
    """The runs that are searched for one by one, sorted and in pages."""
    table = read_run_listing(context, wanted, "/compare/runs/list", back="across")
    shown = {"table": table, "runs": RUNS, "compared": f"/compare/runs{encode_query(RunQuery(table.query.q))}"}
    return render(request, "results/compare_run_list.html", shown, table.problem)


@router.get("/table.html")
def show_table_page(request: Request, context: ContextDep, query: AcrossDep, table: TableDep) -> Response:
    """The table of means on a page of its own, of which an experiment's page takes it when it is reached."""
    selection = select_runs(context, query.q, query.group)
    shown = {"query": query, "at": "/compare/runs/table.html", "kept": parse_qsl(query.encoded())}
    return render(request, "results/compare_table.html", shown | _means(context, selection, query, table))


@router.get("/table.{kind}")
def show_table(context: ContextDep, kind: TableFile, query: AcrossDep, table: TableDep) -> Response:
    """The table of means as a file to keep."""
    return table_file(summarize(context, select_runs(context, query.q, query.group), table.columns), kind, table.style)


@router.get("/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, slug: str, query: AcrossDep, look: SweepDep) -> Response:
    """A figure on a page of its own, of which the page of all takes it when it is reached."""
    figure = read_figure_across(context, select_runs(context, query.q, query.group), slug, query.on, look)
    # The query string of a figure.
    shown = {"figure": figure, "asked": _joined(query.encoded(), look.encoded())}
    return render(request, "results/compare_runs_figure.html", shown)


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, slug: str, kind: FileKind, query: AcrossDep, look: SweepDep) -> Response:
    selection = select_runs(context, query.q, query.group)
    return figure_file([read_figure_across(context, selection, slug, query.on, look)], slug, kind)


def _shown(
    context: Context, selection: RunSelection, query: AcrossQuery, look: SweepQuery, table: TableQuery
) -> dict[str, Any]:
    gathered = selection.table
    offered = list_figures_across(gathered)
    figures = _figures(context, selection, query.on, look) if offered else {}
    groupable = {*gathered.differing_fields} & {*gathered.varying_fields, TASK, EXPERIMENT, REGULARIZER, SEED} | {
        *selection.fields
    }
    return {
        "chosen": selection,
        "counted": describe_selection(selection),
        "listed": f"/compare/runs/list{encode_query(RunQuery(query.q))}",
        "asked": query.encoded(),
        # What is kept of figures further down holds for the same runs alone.
        "key": blake2b(query.encoded().encode(), digest_size=6).hexdigest(),
        "cautions": list_cautions(selection, query.on),
        "measured": evaluation_words(gathered),
        "on": find_evaluation(gathered, query.on).key if offered else "",
        "figures": by_section(offered),
        "figure_sections": SECTIONS,
        **figures,
        "groupable": {field: head(field) for field in gathered.groupable_fields if field in groupable},
        "settings": compare_settings(gathered),
        "head": head,
        "others": _others(context, selection) if OF_EXPERIMENTS.fullmatch(query.q) else {},
        "kept": parse_qsl(_joined(query.encoded(), look.encoded())),
        "kept_by_search": parse_qsl(_joined(look.encoded(), table.encoded())),
        "kept_by_figures": parse_qsl(_joined(query.encoded(), table.encoded())),
        **_means(context, selection, query, table),
    }


def _figures(context: Context, selection: RunSelection, on: str, look: SweepQuery) -> dict[str, Any]:
    """The scatters with what they are drawn by, and what the runs say, as on the page of an experiment."""
    sweep = table_on(selection, on)
    apart = fields_of_scatter(selection, look.scatters[0], look)
    drawn = table_on(selection, on, apart) if apart else sweep
    metric = sweep.runs[0].config.metric
    return {
        "sweep": sweep,
        "scatters": [draw_across(context, drawn, slug, look) for slug in look.scatters],
        "errors": Error,
        "form": scatter_form(sweep, metric, look.style, drawable_fields(selection.table)),
        "colouring": Colouring(sweep, look.style.colour),
        "conclusion": conclude_across(context, selection, on),
        "scale": SCALES[metric],
        "watched": {measure: title_of(measure) for measure in WATCHED},
        "windows": WINDOWS,
    }


def _means(context: Context, selection: RunSelection, query: AcrossQuery, table: TableQuery) -> dict[str, Any]:
    """The table of means, and the texts and files that it becomes."""
    text = printed(summarize(context, selection, table.columns), table.style)
    return {
        "table": table,
        "printed": text,
        "texts": {"LaTeX": ("tex", latex(text)), "Markdown": ("md", markdown(text))},
        "files": _joined(query.encoded(on=""), table.encoded()),
        "columns": COLUMNS,
        "most_decimals": MOST_DECIMALS,
    }


def _others(context: Context, selection: RunSelection) -> dict[str, str]:
    """Names of the experiments that can be added."""
    names = list_names(context, OFFERED)
    return {row_id: name for row_id, name in names.items() if row_id not in selection.table.experiments}


def _joined(*queries: str) -> str:
    return "&".join(query for query in queries if query)


def _search_for(q: str, experiments: list[str]) -> str:
    """These experiments, besides those that the search is for."""
    there = q.removeprefix("experiment=").split(",") if OF_EXPERIMENTS.fullmatch(q) else []
    ids = dict.fromkeys([*there, *(one for one in experiments if one)])
    return f"experiment={','.join(one if one.isalnum() else quoted(one) for one in ids)}"
