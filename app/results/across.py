"""Compare runs of any experiments: select and group them, then build tables and figures."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query

from app.context import Context
from app.figures.figure import Figure
from app.figures.labels import field_in_sentence
from app.results.conclusion.conclusion import Conclusion, find_verdicts, read_conclusion
from app.results.labels import METRIC_AXES
from app.results.run_data import list_metrics
from app.results.run_table import (
    NEVER_AVERAGED,
    OPTIONS_WITHOUT_EFFECT,
    PENALTY_FIELDS,
    SEED,
    TASK,
    TASK_FIELDS,
    DatasetMetric,
    RunTable,
)
from app.results.search.conditions import ALIASES
from app.results.search.listing import find_matching_runs
from app.results.sweep_figures import FIGURES, SCATTERS, FigureRequest, SweepQuery, list_available_slugs
from app.results.tables.printed import MAX_DECIMALS, PrintStyle
from app.results.tables.summary import SummaryTable, TableColumns, summarize_groups
from isoscope.core.errors import InvalidError, NotFoundError
from isoscope.core.formatting import count, plural
from isoscope.core.task import TaskKind


class RunSelection(NamedTuple):
    """At most ``MAX_MATCHING_RUNS`` runs of a search, newest experiments first, and how to group them."""

    table: RunTable
    total: int
    """Number of runs that match the search."""
    requested_fields: list[str]

    @property
    def fields(self) -> list[str]:
        """Return the fields to group by: the requested ones or, without any, those that vary."""
        return self.requested_fields or self.table.varying_fields


def select_runs(context: Context, q: str, group: Sequence[str] = ()) -> RunSelection:
    """Return the newest runs of a search, to be grouped by ``group``. Raise InvalidError for ``q`` or ``group``."""
    matches = find_matching_runs(context, q)
    table = RunTable(matches.runs)
    fields = table.groupable_fields
    names = dict.fromkeys(name if name in fields else ALIASES.get(name.lower(), name) for name in group if name)
    if unknown := [name for name in names if name not in fields]:
        raise InvalidError(
            f"Expected fields to group runs by, got {unknown[0]!r}; fields are {', '.join(sorted(fields))}.",
            "group",
        )
    return RunSelection(table, matches.total, list(names))


def describe_selection(selection: RunSelection) -> str:
    n_runs = len(selection.table.runs)
    newest_note = "" if n_runs == selection.total else ", those of the newest experiments"
    return f"{n_runs:,} of {selection.total:,} runs shown{newest_note}"


def summarize_selection(context: Context, selection: RunSelection, columns: TableColumns) -> SummaryTable:
    table = selection.table
    metrics = list_metrics(context, [run.id for run in table.runs]) if columns is TableColumns.METRICS else {}
    sweeps = [table.evaluated_on(evaluation).group(selection.fields) for evaluation in table.evaluations]
    summary = summarize_groups(table, selection.fields, columns, metrics, find_verdicts(context, sweeps))
    if len(table.runs) < selection.total:
        summary.notes.append(f"{describe_selection(selection)}.")
    return summary


def read_figure_across(
    context: Context, selection: RunSelection, slug: str, evaluation_key: str, query: SweepQuery
) -> Figure:
    """Return a figure of the runs on one data set and metric. Raise NotFoundError if the runs have no such figure."""
    if slug not in list_run_figure_slugs(selection.table):
        raise NotFoundError(f"There is no figure {slug!r} of these runs.")
    more_fields = list_scatter_fields(selection, slug, query)
    return draw_across(context, group_evaluated_runs(selection, evaluation_key, more_fields), slug, query)


def group_evaluated_runs(selection: RunSelection, evaluation_key: str, more_fields: Sequence[str] = ()) -> RunTable:
    """Return the runs on one data set and metric, grouped by the fields of the selection and by ``more_fields``.

    If ``more_fields`` has the task, runs on all data sets are included.
    """
    table = selection.table
    if not table.runs:
        return table.group(())
    evaluated_table = table if TASK in more_fields else table.evaluated_on(find_evaluation(table, evaluation_key))
    return evaluated_table.group([*selection.fields, *more_fields])


def list_scatter_fields(selection: RunSelection, slug: str, query: SweepQuery) -> list[str]:
    """Return the fields that a scatter draws but the selection does not group by."""
    if slug not in SCATTERS:
        return []
    style = query.style
    names = dict.fromkeys(ALIASES.get(name, name) for name in (style.x, style.y, style.color, style.facet))
    fields = list_drawable_fields(selection.table)
    return [name for name in names if name in fields and name not in selection.fields]


def list_drawable_fields(table: RunTable) -> list[str]:
    excluded = (SEED, *PENALTY_FIELDS, *OPTIONS_WITHOUT_EFFECT, *TASK_FIELDS)
    return [name for name in table.differing_fields if name not in excluded]


def conclude_across(context: Context, selection: RunSelection, evaluation_key: str) -> Conclusion:
    """Return the conclusion from the runs on one data set and metric, and the relation pooled over all data sets."""
    table = selection.table
    if not table.runs:
        return read_conclusion(context, table.group(()))
    chosen_evaluation = find_evaluation(table, evaluation_key)
    other_sweeps = [
        table.evaluated_on(evaluation).group(selection.fields)
        for evaluation in table.evaluations
        if evaluation != chosen_evaluation
    ]
    return read_conclusion(context, table.evaluated_on(chosen_evaluation).group(selection.fields), other_sweeps)


def draw_across(context: Context, table: RunTable, slug: str, query: SweepQuery) -> Figure:
    """Return a figure of at least one run. All must have the metric of the first run's experiment."""
    ids = [run.id for run in table.runs]
    return FIGURES[slug].draw(FigureRequest(context, table.runs[0].experiment, table, query, ids))


def list_run_figure_slugs(table: RunTable) -> list[str]:
    """Return the slugs of the figures that can be drawn of these runs. Those of a λ search are left out."""
    if not table.runs:
        return []
    has_classes = any(run.config.task is TaskKind.CLASSIFICATION for run in table.runs)
    return list_available_slugs({"classes": has_classes, "search": False})


def evaluation_titles(table: RunTable) -> dict[str, str]:
    """Return the title of each evaluation, a data set with a metric, by its key."""
    return {
        evaluation.key: f"{table.dataset_names[evaluation.dataset_id]}, {METRIC_AXES[evaluation.metric].title}"
        for evaluation in table.evaluations
    }


def find_evaluation(table: RunTable, evaluation_key: str) -> DatasetMetric:
    """Return the data set and metric with a key; if none has it, those with the most finished runs."""
    matches = (evaluation for evaluation in table.evaluations if evaluation.key == evaluation_key)
    return next(matches, next(iter(table.evaluations)))


def list_cautions(selection: RunSelection, evaluation_key: str) -> list[str]:
    """Return the cautions to read before comparing the runs."""
    table = selection.table
    if not table.runs:
        return []
    evaluation = find_evaluation(table, evaluation_key)
    evaluated_table = table.evaluated_on(evaluation)
    cautions = []
    if len(table.evaluations) > 1:
        n_metrics = len({metric for _, metric in table.evaluations})
        counts = [("data set", len(table.dataset_names)), ("metric", n_metrics)]
        differences = " and ".join(plural(n, noun) for noun, n in counts if n > 1)
        cautions.append(
            f"These runs use {differences}, so their performance cannot be compared. Figures show "
            f"{evaluation_titles(table)[evaluation.key]}: {count(len(evaluated_table.runs))} of "
            f"{plural(len(table.runs), 'run')}. The table of means has a column for each."
        )
    if "evaluation_zeta" in evaluated_table.differing_fields:
        cautions.append("IsoScore★ was measured at different ζ, so it cannot be compared. Each ζ has its own mean.")
    if mixed_fields := evaluated_table.differing_within_groups([*selection.fields, *PENALTY_FIELDS, *NEVER_AVERAGED]):
        names = ", ".join(field_in_sentence(field) for field in mixed_fields)
        cautions.append(f"Some points are means over runs that differ in {names} too.")
    return cautions


class AcrossQuery(NamedTuple):
    """The search, the fields to group by, and the data set with the metric of figures, from the URL."""

    q: str = ""
    group: tuple[str, ...] = ()
    on: str = ""
    """A ``DatasetMetric.key``; empty: the one with the most finished runs."""

    def to_query_string(self, **changed: str) -> str:
        parameters = {"q": self.q, "on": self.on} | changed
        pairs = [*parameters.items(), *(("group", field) for field in self.group)]
        return urlencode([(name, value) for name, value in pairs if value])


class TableQuery(NamedTuple):
    """The columns and the print style of a table of means, from the URL."""

    columns: TableColumns
    style: PrintStyle

    def to_query_string(self) -> str:
        parameters = {
            "columns": "" if self.columns is TableColumns.PERFORMANCE else self.columns.value,
            "decimals": "" if self.style.decimals is None else str(self.style.decimals),
            "bold": "" if self.style.bold else "0",
        }
        return urlencode({name: value for name, value in parameters.items() if value})


def _parse_table_query(
    columns: TableColumns = TableColumns.PERFORMANCE, decimals: str = "", bold: bool = True
) -> TableQuery:
    is_valid = decimals in map(str, range(MAX_DECIMALS + 1))
    return TableQuery(columns, PrintStyle(int(decimals) if is_valid else None, bold))


TableDep = Annotated[TableQuery, Depends(_parse_table_query)]


def _parse_across_query(q: str = "", group: Annotated[list[str] | None, Query()] = None, on: str = "") -> AcrossQuery:
    return AcrossQuery(q.strip(), tuple(group or ()), on)


AcrossDep = Annotated[AcrossQuery, Depends(_parse_across_query)]
