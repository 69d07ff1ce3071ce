"""Tables of means over seeds: groups of runs in rows, data sets or metrics in columns."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.db.models import RunStatus
from app.db.run_rows import AnyRun
from app.figures.figure import Cell, FigureTable
from app.figures.labels import field_heading, field_in_sentence
from app.results.captions import estimate_cells, join_first
from app.results.conclusion.comparisons import Verdict
from app.results.labels import METRIC_AXES
from app.results.run_table import RunTable, cell_text, sort_key
from app.results.statistics.estimate import ErrorBar, Estimate, estimate_over_seeds
from isoscope.core.formatting import plural, short

ISOTROPY_TITLE = "IsoScore★"
MetricsByRun = Mapping[str, Mapping[str, float | None]]
"""Metrics by run id and name."""


class TableColumns(StrEnum):
    """Quantities in the columns of a table."""

    PERFORMANCE = "performance"
    ISOTROPY = "isotropy"
    PERFORMANCE_AND_ISOTROPY = "both"
    METRICS = "metrics"


class SummaryColumn(NamedTuple):
    """A measure on a data set, and whether greater values are better. Isotropy has no best value."""

    dataset: str
    measure: str
    greater_is_better: bool = True


class SummaryRow(NamedTuple):
    """A group of runs: its labels, and for each column a mean with its 95% half-width, or None without a value."""

    labels: list[str]
    cells: list[Estimate | None]
    verdicts: Mapping[SummaryColumn, Verdict] = {}
    """By column, if all runs of the group share it. Only the best group that beats its baseline has ``BETTER``."""


@dataclass(frozen=True)
class SummaryTable:
    """Means of groups of runs before they are rounded. ``heads`` name the fields that the runs are grouped by."""

    heads: list[str]
    columns: list[SummaryColumn]
    rows: list[SummaryRow]
    notes: list[str]

    def table(self) -> FigureTable:
        lines: list[list[Cell]] = [
            [*row.labels, column.dataset, column.measure, *estimate_cells(estimate), estimate.n if estimate else 0]
            for row in self.rows
            for column, estimate in zip(self.columns, row.cells, strict=True)
        ]
        return FigureTable([*self.heads, "data set", "measure", "mean", ErrorBar.CI95.column, "n"], lines)


def summarize_groups(
    table: RunTable,
    fields: Sequence[str],
    column_choice: TableColumns,
    metrics: MetricsByRun,
    run_verdicts: Mapping[str, Verdict],
) -> SummaryTable:
    """Average finished runs that agree in these fields. No mean mixes data sets or metrics.

    ``run_verdicts`` has verdicts by run id, for runs of best and of collapsed settings.
    """
    finished = table.subset([run for run in table.runs if run.status is RunStatus.FINISHED])
    values_by_group: dict[tuple[Cell, ...], dict[SummaryColumn, list[tuple[int, float | None]]]] = {}
    verdicts: defaultdict[tuple[tuple[Cell, ...], SummaryColumn], set[Verdict | None]] = defaultdict(set)
    for run, labels in zip(table.runs, table.rows(fields), strict=True):
        if run.status is not RunStatus.FINISHED:
            continue
        performance = SummaryColumn(table.dataset_names[run.experiment.dataset_id], _metric_title(run.config.metric))
        verdict = run_verdicts.get(run.id)
        verdicts[labels, performance].add(verdict)
        values_by_column = values_by_group.setdefault(labels, {})
        for column, value in _column_values(table, run, column_choice, metrics):
            if column_choice is TableColumns.ISOTROPY:
                verdicts[labels, column].add(verdict if verdict is Verdict.COLLAPSED else None)
            values_by_column.setdefault(column, []).append((run.seed, value))
    columns = sorted(
        {column for values_by_column in values_by_group.values() for column in values_by_column},
        key=lambda column: (column.dataset.casefold(), not column.greater_is_better, column.measure),
    )
    rows, repeated = [], dict[str, None]()
    for labels in sorted(values_by_group, key=lambda labels: [*map(sort_key, fields, labels)]):
        texts = [cell_text(cell) for cell in labels]
        means = [estimate_over_seeds(values_by_group[labels].get(column, ())) for column in columns]
        shared_verdicts = {}
        for column in columns:
            verdict, *more_verdicts = verdicts[labels, column] or {None}
            if verdict is not None and not more_verdicts:
                shared_verdicts[column] = verdict
        rows.append(SummaryRow(texts, means, shared_verdicts))
        for seed_values in values_by_group[labels].values():
            runs_by_seed = Counter(seed for seed, value in seed_values if value is not None)
            repeated_seeds = sorted(seed for seed, n_runs in runs_by_seed.items() if n_runs > 1)
            repeated |= {", ".join([*texts, f"seed {seed}"]): None for seed in repeated_seeds}
    notes = _collect_notes(table, finished, fields, column_choice)
    notes += [f"A seed of several runs counts once, by their mean: {join_first([*repeated])}."] if repeated else []
    notes += _note_missing_metrics(finished, metrics) if column_choice is TableColumns.METRICS else []
    return SummaryTable([field_heading(field) for field in fields], columns, rows, notes)


def _note_missing_metrics(finished: RunTable, metrics: MetricsByRun) -> list[str]:
    runs_by_dataset: dict[str, list[AnyRun]] = {}
    for run in finished.runs:
        runs_by_dataset.setdefault(finished.dataset_names[run.experiment.dataset_id], []).append(run)
    notes = []
    for dataset, runs in runs_by_dataset.items():
        scope = f" on {dataset}" if len(runs_by_dataset) > 1 else ""
        missing_counts = {
            name: sum(metrics.get(run.id, {}).get(name) is None for run in runs)
            for name in sorted({name for run in runs for name in metrics.get(run.id, {})})
        }
        notes += [
            f"Left out, because there is no {_metric_title(name)}{scope}: {plural(missing, 'run')}."
            for name, missing in missing_counts.items()
            if missing
        ]
    return notes


def _column_values(
    table: RunTable, run: AnyRun, column_choice: TableColumns, metrics: MetricsByRun
) -> Iterable[tuple[SummaryColumn, float | None]]:
    dataset = table.dataset_names[run.experiment.dataset_id]
    if column_choice is TableColumns.METRICS:
        for name, value in metrics.get(run.id, {}).items():
            yield SummaryColumn(dataset, _metric_title(name)), value
    if column_choice in (TableColumns.PERFORMANCE, TableColumns.PERFORMANCE_AND_ISOTROPY):
        yield SummaryColumn(dataset, _metric_title(run.config.metric)), run.performance
    if column_choice in (TableColumns.ISOTROPY, TableColumns.PERFORMANCE_AND_ISOTROPY):
        zeta_note = (
            f" at ζ = {short(run.config.evaluation_zeta)}" if "evaluation_zeta" in table.differing_fields else ""
        )
        yield SummaryColumn(dataset, f"{ISOTROPY_TITLE}{zeta_note}", greater_is_better=False), run.isoscore_star


def _metric_title(metric: str) -> str:
    return METRIC_AXES[metric].title if metric in METRIC_AXES else metric.replace("_", " ").capitalize()


def _collect_notes(
    table: RunTable, finished: RunTable, fields: Sequence[str], column_choice: TableColumns
) -> list[str]:
    notes = []
    if differing := finished.differing_within_groups(fields):
        words = ", ".join(field_in_sentence(field) for field in differing)
        notes.append(f"Runs in one mean differ in {words} too.")
    if n_unfinished := len(table.runs) - len(finished.runs):
        verb = "it has" if n_unfinished == 1 else "they have"
        notes.append(f"Left out, because {verb} not finished: {plural(n_unfinished, 'run')}.")
    undefined_counts = {}
    if column_choice in (TableColumns.PERFORMANCE, TableColumns.PERFORMANCE_AND_ISOTROPY):
        undefined_counts["performance"] = sum(run.performance is None for run in finished.runs)
    if column_choice in (TableColumns.ISOTROPY, TableColumns.PERFORMANCE_AND_ISOTROPY):
        undefined_counts[ISOTROPY_TITLE] = sum(run.isoscore_star is None for run in finished.runs)
    for quantity, n in undefined_counts.items():
        notes += [f"Left out, because {quantity} is undefined: {plural(n, 'run')}."] if n else []
    return notes
