"""Settings, the values in which runs differ except for seeds; and families, settings that differ in λ alone."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from app.db.config import option_applies
from app.db.options.regularization import describe_weights
from app.db.reported_config import UNKNOWN, AnyRunConfig
from app.db.run_rows import AnyRun
from app.figures.figure import Cell
from isoscope.core.formatting import short
from isotropy.catalog import Regularizer


class Family(NamedTuple):
    """Settings that differ in λ alone, joined by a line in figures."""

    regularizer: Regularizer
    zeta: float | None
    values: tuple[Cell, ...]


class Setting(NamedTuple):
    """The values in which runs differ, except for the seed. None where an option has no effect."""

    regularizer: Regularizer
    lam: float
    zeta: float | None
    values: tuple[Cell, ...]
    """Values of the fields by which a table groups runs, in their order."""

    @property
    def is_baseline(self) -> bool:
        """Return whether this is plain training, apart from penalties added to every run."""
        return self.regularizer is Regularizer.NONE

    @property
    def family(self) -> Family:
        return Family(self.regularizer, self.zeta, self.values)


_applies = lru_cache(maxsize=1024)(option_applies)


def option_value(config: AnyRunConfig, swept: Regularizer, field: str) -> Cell:
    """Return the value of a configuration field; None if it has no effect.

    ``swept`` is the regularizer that λ multiplies: none for plain training.
    """
    regularizers = (() if swept is Regularizer.NONE else (swept,)) + (*config.fixed_regularizers,)
    return as_cell(config.value(field, UNKNOWN)) if _applies(field, regularizers, config.points) else None


def setting_of(run: AnyRun, fields: Sequence[str]) -> Setting:
    """Return the setting of a run by these configuration fields. It is the same for all seeds."""
    regularizer = run.regularizer if run.lam else Regularizer.NONE
    regularizers = (() if regularizer is Regularizer.NONE else (regularizer,)) + (*run.config.fixed_regularizers,)
    return Setting(
        regularizer,
        0.0 if regularizer is Regularizer.NONE else run.lam,
        run.zeta if _applies("zeta", regularizers, run.config.points) else None,
        tuple(option_value(run.config, regularizer, field) for field in fields),
    )


def as_cell(value: Any) -> Cell:
    """Convert a configuration value for tables."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return describe_weights(value)
    if value is None:
        return "default"
    return float(value) if isinstance(value, float) else value


def cell_text(value: Cell) -> str:
    return value if isinstance(value, str) else short(value)
