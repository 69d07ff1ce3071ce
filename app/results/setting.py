"""What runs differ in: a setting is all but the seed, a family all but the seed and λ."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from app.db.config import applies
from app.db.models import Run
from app.db.regularizer_options import Regularizer
from app.db.reported_config import UNKNOWN
from app.figures.figure import Cell
from app.regularizers import added_words
from isoscope.core.formatting import short


class Setting(NamedTuple):
    """All that runs differ in but the seed; None where a setting means nothing."""

    regularizer: Regularizer
    lam: float
    zeta: float | None
    values: tuple[Cell, ...]
    """Of the grid's fields, in their order."""

    @property
    def baseline(self) -> bool:
        """Whether it is plain training, but for what accompanies every run."""
        return self.regularizer is Regularizer.NONE


class Family(NamedTuple):
    """Settings that differ in λ alone: what a line of a figure joins."""

    regularizer: Regularizer
    zeta: float | None
    values: tuple[Cell, ...]


def setting_of(run: Run, fields: Sequence[str]) -> Setting:
    """What a run is one of, by these fields of its configuration; the same for all its seeds."""
    config, lam, regularizer = run.config, run.lam, run.regularizer
    baseline = lam == 0 or regularizer is Regularizer.NONE
    swept = [] if baseline else [regularizer]
    active = [*swept, *config.fixed_regularizers]
    points = config.points
    return Setting(
        Regularizer.NONE if baseline else regularizer,
        0.0 if baseline else lam,
        run.zeta if applies("zeta", active, points) else None,
        tuple(cell(config.value(field, UNKNOWN)) if applies(field, active, points) else None for field in fields),
    )


def cell(value: Any) -> Cell:
    """A setting's value as tables hold it."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return added_words(value)
    if value is None:
        return "default"
    return float(value) if isinstance(value, float) else value


def words(value: Cell) -> str:
    """A value of a setting as a label shows it."""
    return value if isinstance(value, str) else short(value)


def told(fields: Sequence[str], runs: Iterable[Run]) -> dict[str, set[Cell]]:
    """The values of each of these fields of configurations, as tables hold them."""
    kinds = {setting_of(run, fields).values for run in runs}
    return {field: {values[place] for values in kinds} - {None} for place, field in enumerate(fields)}


def differing(fields: Sequence[str], runs: Iterable[Run]) -> list[str]:
    """Those of the fields that have several values."""
    return [field for field, values in told(fields, runs).items() if len(values) > 1]
