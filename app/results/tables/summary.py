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
from app.results.labels import SCALES
from app.results.run_table import RunTable, cell_text, sort_key
from app.results.statistics.estimate import ErrorBar, Estimate, by_seed, estimate
from isoscope.core.formatting import plural, short

ISOTROPY = "IsoScore★"
Metrics = Mapping[str, Mapping[str, float | None]]
"""All metrics by run id and name."""


class TableColumns(StrEnum):
    """Quantities in the columns of a table."""

    PERFORMANCE = "performance"
    ISOTROPY = "isotropy"
    PERFORMANCE_AND_ISOTROPY = "both"
    METRICS = "metrics"


class SummaryColumn(NamedTuple):
    """A measure on a data set. Isotropy has no best value."""

    dataset: str
    measure: str
    greater_is_better: bool = True


class SummaryRow(NamedTuple):
    """A group of runs: its labels, and for each column a mean with its 95% half-width or None."""

    labels: list[str]
    cells: list[Estimate | None]
    verdicts: Mapping[SummaryColumn, Verdict] = {}
    """By column of performance: ``BETTER`` only on the best group of those that beat the baseline."""


@dataclass(frozen=True)
class SummaryTable:
    """A table before it is printed. ``heads`` name the fields of the groups."""

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
    metrics: Metrics,
    run_verdicts: Mapping[str, Verdict],
) -> SummaryTable:
    """Group finished runs by these fields. No mean mixes data sets or metrics.

    ``run_verdicts`` has the runs of best and of collapsed settings by id.
    """
    finished = table.subset([run for run in table.runs if run.status is RunStatus.FINISHED])
    values: dict[tuple[Cell, ...], dict[SummaryColumn, list[tuple[int, float]]]] = {}
    verdicts: defaultdict[tuple[tuple[Cell, ...], SummaryColumn], set[Verdict | None]] = defaultdict(set)
    for run, labels in zip(table.runs, table.rows(fields), strict=True):
        if run.status is not RunStatus.FINISHED:
            continue
        performance = SummaryColumn(table.datasets[run.experiment.dataset_id], _title(run.config.metric))
        verdicts[labels, performance].add(run_verdicts.get(run.id))
        row = values.setdefault(labels, {})
        for column, value in _column_values(table, run, column_choice, metrics):
            seed_values = row.setdefault(column, [])
            seed_values += [] if value is None else [(run.seed, value)]
    columns = sorted(
        {column for row in values.values() for column in row},
        key=lambda column: (column.dataset.casefold(), not column.greater_is_better, column.measure),
    )
    ordered_groups = sorted(values, key=lambda labels: [*map(sort_key, fields, labels)])
    rows = []
    for labels in ordered_groups:
        seed_means_by_column = [by_seed(values[labels].get(column, [])).values() for column in columns]
        means = [estimate([*seed_means]) if seed_means else None for seed_means in seed_means_by_column]
        shared_verdicts = {
            column: verdict
            for column in columns
            if len(group := verdicts[labels, column]) == 1
            for verdict in group
            if verdict is not None
        }
        rows.append(SummaryRow([cell_text(cell) for cell in labels], means, shared_verdicts))
    repeated = dict.fromkeys(
        ", ".join([*map(cell_text, labels), f"seed {seed}"])
        for labels in ordered_groups
        for seed_values in values[labels].values()
        for seed, n_runs in sorted(Counter(seed for seed, _ in seed_values).items())
        if n_runs > 1
    )
    notes = _collect_notes(table, finished, fields, column_choice)
    notes += [f"A seed of several runs counts once, by their mean: {join_first([*repeated])}."] if repeated else []
    notes += _note_missing_metrics(finished, metrics) if column_choice is TableColumns.METRICS else []
    return SummaryTable([field_heading(field) for field in fields], columns, rows, notes)


def _note_missing_metrics(finished: RunTable, metrics: Metrics) -> list[str]:
    runs_by_dataset: dict[str, list[AnyRun]] = {}
    for run in finished.runs:
        runs_by_dataset.setdefault(finished.datasets[run.experiment.dataset_id], []).append(run)
    notes = []
    for dataset, runs in runs_by_dataset.items():
        scope = f" on {dataset}" if len(runs_by_dataset) > 1 else ""
        missing_counts = {
            name: sum(metrics.get(run.id, {}).get(name) is None for run in runs)
            for name in sorted({name for run in runs for name in metrics.get(run.id, {})})
        }
        notes += [
            f"Left out, because there is no {_title(name)}{scope}: {plural(missing, 'run')}."
            for name, missing in missing_counts.items()
            if missing
        ]
    return notes


def _column_values(
    table: RunTable, run: AnyRun, column_choice: TableColumns, metrics: Metrics
) -> Iterable[tuple[SummaryColumn, float | None]]:
    dataset = table.datasets[run.experiment.dataset_id]
    if column_choice is TableColumns.METRICS:
        for name, value in metrics.get(run.id, {}).items():
            yield SummaryColumn(dataset, _title(name)), value
    if column_choice in (TableColumns.PERFORMANCE, TableColumns.PERFORMANCE_AND_ISOTROPY):
        yield SummaryColumn(dataset, _title(run.config.metric)), run.performance
    if column_choice in (TableColumns.ISOTROPY, TableColumns.PERFORMANCE_AND_ISOTROPY):
        zeta_note = (
            f" at ζ = {short(run.config.evaluation_zeta)}" if "evaluation_zeta" in table.differing_fields else ""
        )
        yield SummaryColumn(dataset, f"{ISOTROPY}{zeta_note}", greater_is_better=False), run.isoscore_star


def _title(metric: str) -> str:
    return SCALES[metric].title if metric in SCALES else metric.replace("_", " ").capitalize()


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
        undefined_counts[ISOTROPY] = sum(run.isoscore_star is None for run in finished.runs)
    for quantity, n in undefined_counts.items():
        notes += [f"Left out, because {quantity} is undefined: {plural(n, 'run')}."] if n else []
    return notes
