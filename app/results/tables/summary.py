"""Groups of runs in rows, tasks or metrics in columns, and in each cell the mean over seeds with its deviation."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.db.models import RunStatus
from app.db.run_rows import AnyRun
from app.figures.figure import Cell, Table
from app.figures.labels import head, inside
from app.results.captions import describe_overstated, estimate_cells, list_first
from app.results.labels import SCALES
from app.results.run_table import RunTable, sort_key
from app.results.setting import cell_text
from app.results.statistics.estimate import Error, Estimate, by_seed, estimate
from isoscope.core.formatting import plural, short

ISOTROPY = "IsoScore★"
Metrics = Mapping[str, Mapping[str, float | None]]
"""Values of further metrics by the id of a run and the name of the metric."""


class Shown(StrEnum):
    """What the columns of a table are."""

    PERFORMANCE = "performance"
    ISOTROPY = "isotropy"
    BOTH = "both"
    METRICS = "metrics"


class Column(NamedTuple):
    """A measure on a data set; of isotropy none is the best."""

    dataset: str
    measure: str
    greater_is_better: bool = True


class Row(NamedTuple):
    """A group: what its runs have in common, and a cell for each column, None where no run has a value.

    Cells are means over seeds with their standard deviations.
    """

    labels: list[str]
    cells: list[Estimate | None]
    given_up: frozenset[str] = frozenset()
    """Data sets on which a study gave up runs of it, so that those that it let finish flatter it."""


@dataclass(frozen=True)
class Summary:
    """A table before it is printed: ``heads`` are of what makes the groups."""

    heads: list[str]
    columns: list[Column]
    rows: list[Row]
    notes: list[str]
    """What else has to be known of its numbers, each a sentence."""

    def table(self) -> Table:
        """A row for each cell, unrounded."""
        lines: list[list[Cell]] = [
            [*row.labels, column.dataset, column.measure, *estimate_cells(found), found.n if found else 0]
            for row in self.rows
            for column, found in zip(self.columns, row.cells, strict=True)
        ]
        return Table([*self.heads, "data set", "measure", "mean", "std", "n"], lines)


def summary(gathered: RunTable, fields: Sequence[str], shown: Shown, metrics: Metrics) -> Summary:
    """The finished runs in groups by these fields. Different data sets and metrics are never in one mean."""
    finished = gathered.subset([run for run in gathered.runs if run.status is RunStatus.FINISHED])
    values: dict[tuple[Cell, ...], dict[Column, list[tuple[int, float]]]] = {}
    for run, labels in zip(gathered.runs, gathered.rows(fields), strict=True):
        if run.status is not RunStatus.FINISHED:
            continue
        row = values.setdefault(labels, {})
        for column, value in _values(gathered, run, shown, metrics):
            found = row.setdefault(column, [])
            found += [] if value is None else [(run.seed, value)]
    columns = sorted({column for row in values.values() for column in row}, key=_place)
    ordered = sorted(values, key=lambda labels: [*map(sort_key, fields, labels)])
    given_up = _given_up(gathered, fields)
    rows = [
        Row(
            [cell_text(cell) for cell in labels],
            [_estimate(values[labels].get(column, [])) for column in columns],
            frozenset(given_up[labels]),
        )
        for labels in ordered
    ]
    unmeasured = _unmeasured(finished, metrics) if shown is Shown.METRICS else []
    flattering = describe_overstated(
        "Never bold", [", ".join(row.labels) or "all runs" for row in rows if row.given_up]
    )
    notes = [
        *_notes(gathered, finished, fields, shown),
        *_repeated({labels: values[labels] for labels in ordered}),
        *unmeasured,
        *([flattering.strip()] if flattering else []),
    ]
    return Summary([head(field) for field in fields], columns, rows, notes)


def _repeated(values: Mapping[tuple[Cell, ...], Mapping[Column, Sequence[tuple[int, float]]]]) -> list[str]:
    """Which groups and seeds have several runs behind one value."""
    often = dict.fromkeys(
        ", ".join([*map(cell_text, labels), f"seed {seed}"])
        for labels, row in values.items()
        for measured in row.values()
        for seed, runs in sorted(Counter(seed for seed, _ in measured).items())
        if runs > 1
    )
    return [f"A seed of several runs counts once, by their mean: {list_first([*often])}."] if often else []


def _given_up(gathered: RunTable, fields: Sequence[str]) -> defaultdict[tuple[Cell, ...], set[str]]:
    """The data sets on which a study gave up runs of a group."""
    found: defaultdict[tuple[Cell, ...], set[str]] = defaultdict(set)
    for run, labels in zip(gathered.runs, gathered.rows(fields), strict=True):
        if run.status is RunStatus.PRUNED:
            found[labels].add(gathered.datasets[run.experiment.dataset_id])
    return found


def _estimate(measured: Sequence[tuple[int, float]]) -> Estimate | None:
    return estimate([*by_seed(measured).values()], Error.STD) if measured else None


def _unmeasured(finished: RunTable, metrics: Metrics) -> list[str]:
    """How many runs have no value of a metric that others on their data set have."""
    found: dict[str, list[AnyRun]] = {}
    for run in finished.runs:
        found.setdefault(finished.datasets[run.experiment.dataset_id], []).append(run)
    notes = []
    for dataset, runs in found.items():
        where = f" on {dataset}" if len(found) > 1 else ""
        without = {
            name: sum(metrics.get(run.id, {}).get(name) is None for run in runs)
            for name in sorted({name for run in runs for name in metrics.get(run.id, {})})
        }
        notes += [
            f"Left out, because there is no {_title(name)}{where}: {plural(missing, 'run')}."
            for name, missing in without.items()
            if missing
        ]
    return notes


def _values(gathered: RunTable, run: AnyRun, shown: Shown, metrics: Metrics) -> Iterable[tuple[Column, float | None]]:
    dataset = gathered.datasets[run.experiment.dataset_id]
    if shown is Shown.METRICS:
        for name, value in metrics.get(run.id, {}).items():
            yield Column(dataset, _title(name)), value
    if shown in (Shown.PERFORMANCE, Shown.BOTH):
        yield Column(dataset, _title(run.config.metric)), run.performance
    if shown in (Shown.ISOTROPY, Shown.BOTH):
        at = f" at ζ = {short(run.config.evaluation_zeta)}" if "evaluation_zeta" in gathered.differing_fields else ""
        yield Column(dataset, f"{ISOTROPY}{at}", greater_is_better=False), run.isoscore_star


def _title(metric: str) -> str:
    return SCALES[metric].title if metric in SCALES else metric.replace("_", " ").capitalize()


def _place(column: Column) -> tuple[str, bool, str]:
    return column.dataset.casefold(), not column.greater_is_better, column.measure


def _notes(gathered: RunTable, finished: RunTable, fields: Sequence[str], shown: Shown) -> list[str]:
    notes = []
    if others := finished.differing_within_groups(fields):
        named = ", ".join(inside(field) for field in others)
        notes.append(f"Runs in one mean differ in {named} too.")
    if waiting := len(gathered.runs) - len(finished.runs):
        have = "it has" if waiting == 1 else "they have"
        notes.append(f"Left out, because {have} not finished: {plural(waiting, 'run')}.")
    for told, column in _UNDEFINED[shown]:
        if undefined := sum(column(run) is None for run in finished.runs):
            notes.append(f"Left out, because {told} is undefined: {plural(undefined, 'run')}.")
    return notes


_PERFORMANCE: tuple[str, Callable[[AnyRun], float | None]] = ("performance", lambda run: run.performance)
_ISOTROPY: tuple[str, Callable[[AnyRun], float | None]] = (ISOTROPY, lambda run: run.isoscore_star)
_UNDEFINED: Mapping[Shown, Sequence[tuple[str, Callable[[AnyRun], float | None]]]] = {
    Shown.PERFORMANCE: (_PERFORMANCE,),
    Shown.ISOTROPY: (_ISOTROPY,),
    Shown.BOTH: (_PERFORMANCE, _ISOTROPY),
    Shown.METRICS: (),
}
