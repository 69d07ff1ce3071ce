"""Comparisons of runs of any experiments over the API."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.results.across import (
    conclude_across,
    evaluation_titles,
    find_evaluation,
    list_cautions,
    list_run_figure_slugs,
    read_figure_across,
    select_runs,
    summarize_selection,
)
from app.results.api.conclusion import ConclusionOut
from app.results.setting_comparison import ComparedColumn, compare_settings
from app.results.sweep_figures import SweepDep
from app.results.tables.printed import MAX_DECIMALS, PrintStyle
from app.results.tables.summary import SummaryTable, TableColumns
from app.results.tables.texts import MEDIA_TYPES, TextFormat, format_summary
from app.web.dependencies import ContextDep, Row
from app.web.responses import FigureOut, attachment_headers


class MomentsOut(Row):
    """A cell of a table of means."""

    mean: float
    half_width: Annotated[float | None, Field(description="Half the 95% interval of the mean; null with one seed.")]
    n: Annotated[int, Field(description="Number of seeds.")]


class ColumnOut(Row):
    """A measure on a data set. No mean mixes data sets or metrics."""

    dataset: str
    measure: str


class GroupOut(Row):
    """A group of runs with equal values of the grouping fields."""

    group: Annotated[
        list[str],
        Field(validation_alias="labels", description="In the order of `groups`; a dash if a setting has no effect."),
    ]
    cells: Annotated[list[MomentsOut | None], Field(description="In the order of `columns`; null without a value.")]


class _SelectionOut(BaseModel):
    runs: Annotated[int, Field(description="Runs that were read, at most 1,000, those of the newest experiments.")]
    total: Annotated[int, Field(description="Runs that the search finds.")]


class RunTableOut(_SelectionOut):
    """Means of groups of finished runs, with half their 95% intervals."""

    groups: Annotated[list[str], Field(description="Fields by which runs are grouped.")]
    columns: list[ColumnOut]
    rows: list[GroupOut]
    notes: Annotated[
        list[str], Field(description="What was left out, and in which settings the runs of a mean differ.")
    ]


class ConclusionOfRunsOut(_SelectionOut):
    """Conclusions from the runs of a search, on one data set by one metric."""

    groups: Annotated[list[str], Field(description="Settings that distinguish groups, besides regularizer and λ.")]
    on: Annotated[str, Field(description="Data set and metric; empty if no run matches.")]
    measured: Annotated[dict[str, str], Field(description="All values of `on`, in words.")]
    cautions: Annotated[list[str], Field(description="Caveats of comparing these runs.")]
    conclusion: ConclusionOut


class DifferingOut(BaseModel):
    """A setting in which some of the runs differ."""

    field: str
    values: Annotated[list[list[str]], Field(description="Values of the runs, in the order of `sides`.")]


class EqualOut(BaseModel):
    """A setting that is the same for all of the runs."""

    field: str
    value: str


class SettingsOut(_SelectionOut):
    """Settings side by side."""

    sides: Annotated[list[ComparedColumn], Field(description="Runs, or experiments if there are more than eight runs.")]
    left_out: Annotated[int, Field(description="Experiments beyond the first eight, which are not shown.")]
    differing: list[DifferingOut]
    equal: list[EqualOut]


runs_router = APIRouter(prefix="/compare/runs", tags=["runs"])

Search = Annotated[
    str, Query(description="Words and conditions such as `task:cola lam<0 iso>0.2`; all runs without one.")
]
Group = Annotated[
    list[str] | None,
    Query(
        description="Fields to group runs by: task, experiment, model, regularizer, lam, zeta, seed, a training "
        "option, or a setting that scripts logged. By default, all that vary except tasks and seeds."
    ),
]
On = Annotated[
    str,
    Query(
        description="Data set and metric as `<id of the data set>.<metric>`, because performance can be compared only "
        "within one. By default, the pair with the most finished runs."
    ),
]
TEXT_FORMATS: dict[str, TextFormat] = {"markdown": "md", "latex": "tex", "csv": "csv"}
TEXT_RESPONSE: dict[str, Any] = {"content": {media: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()}}


@runs_router.get("/table", response_model=RunTableOut, responses={200: TEXT_RESPONSE})
def show_table(
    context: ContextDep,
    q: Search = "",
    group: Group = None,
    columns: Annotated[
        TableColumns, Query(description="Quantities in the columns, each for every data set.")
    ] = TableColumns.PERFORMANCE,
    format: Annotated[  # noqa: A002 - the name in the URL
        Literal["json", "markdown", "latex", "csv"], Query(description="JSON and CSV are unrounded.")
    ] = "json",
    decimals: Annotated[
        int | None,
        Query(
            ge=0, le=MAX_DECIMALS, description="Decimals in Markdown and LaTeX. By default, chosen from the intervals."
        ),
    ] = None,
    bold: Annotated[
        bool, Query(description="Print the best setting in bold, if the verdict is that it beats the baseline.")
    ] = True,
) -> Response | RunTableOut:
    """Means of groups of runs, each with half its 95% interval: formatted for a paper, or as numbers."""
    selection = select_runs(context, q, group or ())
    summary = summarize_selection(context, selection, columns)
    if format == "json":
        return RunTableOut(
            runs=len(selection.table.runs),
            total=selection.total,
            groups=selection.fields,
            columns=[ColumnOut.model_validate(column) for column in summary.columns],
            rows=[GroupOut.model_validate(row) for row in summary.rows],
            notes=summary.notes,
        )
    text_format = TEXT_FORMATS[format]
    text = format_summary(summary, text_format, PrintStyle(decimals, bold))
    return Response(text, media_type=MEDIA_TYPES[text_format])


@runs_router.get("/settings")
def show_settings(context: ContextDep, q: Search = "") -> SettingsOut:
    """The settings in which runs differ, side by side, and those that are the same for all of them."""
    selection = select_runs(context, q)
    comparison = compare_settings(selection.table)
    return SettingsOut(
        runs=len(selection.table.runs),
        total=selection.total,
        sides=comparison.columns,
        left_out=comparison.n_left_out,
        differing=[DifferingOut(field=field, values=values) for field, values in comparison.differing.items()],
        equal=[EqualOut(field=field, value=value) for field, value in comparison.equal.items()],
    )


@runs_router.get("/conclusion")
def show_conclusion(context: ContextDep, q: Search = "", group: Group = None, on: On = "") -> ConclusionOfRunsOut:
    """Whether performance is related to isotropy over the runs of a search, and each lambda against lambda = 0."""
    selection = select_runs(context, q, group or ())
    table = selection.table
    return ConclusionOfRunsOut(
        runs=len(table.runs),
        total=selection.total,
        groups=selection.fields,
        on=find_evaluation(table, on).key if table.runs else "",
        measured=evaluation_titles(table),
        cautions=list_cautions(selection, on),
        conclusion=ConclusionOut.from_conclusion(conclude_across(context, selection, on)),
    )


@runs_router.get("/figures")
def list_figures(context: ContextDep, q: Search = "") -> list[str]:
    """The slugs of all figures that the runs of a search can have."""
    return list_run_figure_slugs(select_runs(context, q).table)


@runs_router.get("/figures/{slug}")
def show_figure(
    context: ContextDep, slug: str, sweep_query: SweepDep, q: Search = "", group: Group = None, on: On = ""
) -> FigureOut:
    """A figure of the runs of a search, as on the page of an experiment."""
    figure = read_figure_across(context, select_runs(context, q, group or ()), slug, on, sweep_query)
    return FigureOut.from_figure(figure)


TableFileKind = TextFormat | Literal["json"]


def table_response(summary: SummaryTable, kind: TableFileKind, style: PrintStyle) -> Response:
    """Return a table as a file: formatted for a paper as Markdown or LaTeX, unrounded as CSV or JSON."""
    headers = attachment_headers(f"isoscope-means.{kind}")
    if kind == "json":
        table = summary.table()
        return JSONResponse([dict(zip(table.columns, row, strict=True)) for row in table.rows], headers=headers)
    return Response(format_summary(summary, kind, style), media_type=MEDIA_TYPES[kind], headers=headers)
