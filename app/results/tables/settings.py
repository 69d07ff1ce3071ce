"""Settings side by side: of runs, or of experiments where these are many, those that differ and those that do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.db.models import Run
from app.figures.figure import Cell
from app.regularizers import coordinates
from app.results.run_set import EXPERIMENT, RunSet, order
from app.results.setting import words

MOST_COLUMNS = 8
MOST_VALUES = 8
"""Values of a setting that a cell names."""


class Side(NamedTuple):
    """A column: a run, or an experiment with all of its runs that were chosen."""

    name: str
    href: str
    runs: int


@dataclass(frozen=True)
class Settings:
    """What was set, in the order of ``RunSet.fields``."""

    sides: list[Side]
    differing: dict[str, list[list[str]]]
    """By field, the values in each column as words."""
    equal: dict[str, str]
    of_experiments: bool
    """Whether columns are experiments, because the runs are too many for a column each."""
    left_out: int
    """Experiments that have no column."""


def settings(gathered: RunSet) -> Settings:
    """All settings of the runs, but for the experiment that they are of."""
    columns = _columns(gathered)
    shown = columns[:MOST_COLUMNS]
    compared = [field for field in gathered.fields if field != EXPERIMENT]
    differing = {
        field: [_values(gathered, field, runs) for _, runs in shown]
        for field in compared
        if field in gathered.differing
    }
    equal = {
        field: words(_first(gathered, field)) for field in compared if gathered.runs and field not in gathered.differing
    }
    many = len(gathered.runs) > MOST_COLUMNS
    return Settings([side for side, _ in shown], differing, equal, many, len(columns) - len(shown))


def _first(gathered: RunSet, field: str) -> Cell:
    """The value of the first run to which it means something."""
    values = (gathered.value(run, field) for run in gathered.runs)
    return next((value for value in values if value is not None), None)


def _columns(gathered: RunSet) -> list[tuple[Side, Sequence[Run]]]:
    if len(gathered.runs) <= MOST_COLUMNS:
        return [(Side(_name(gathered, run), f"/runs/{run.id}", 1), [run]) for run in gathered.runs]
    by_experiment: dict[str, list[Run]] = {row_id: [] for row_id in gathered.experiments}
    for run in gathered.runs:
        by_experiment[run.experiment_id].append(run)
    return [
        (Side(gathered.experiments[row_id], f"/experiments/{row_id}", len(runs)), runs)
        for row_id, runs in by_experiment.items()
    ]


def _name(gathered: RunSet, run: Run) -> str:
    name = f"{coordinates(run.regularizer, run.lam)}, seed {run.seed}"
    return f"{gathered.experiments[run.experiment_id]}: {name}" if len(gathered.experiments) > 1 else name


def _values(gathered: RunSet, field: str, runs: Sequence[Run]) -> list[str]:
    """Each value once, from the least; that a setting means nothing is told only where it means nothing to all."""
    found = {gathered.value(run, field) for run in runs}
    values = [words(cell) for cell in sorted(found - {None}, key=lambda cell: order(field, cell))]
    if len(values) > MOST_VALUES:
        more = len(values) - MOST_VALUES + 1
        values = [*values[: MOST_VALUES - 1], f"and {more} more"]
    return values or [words(None)]
