"""What the colours of a scatter stand for: λ, the regularizer, ζ, or whatever else the runs differ in."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from app.figures import palette
from app.figures.figure import Cell
from app.regularizers import NAMES
from app.results.column_labels import inside
from app.results.setting import Family, Setting, cell, words
from app.results.sweep import Sweep
from isoscope.core.formatting import short

LAMBDA, REGULARIZER, ZETA = "lambda", "regularizer", "zeta"
TITLES = {LAMBDA: "λ", REGULARIZER: "regularizer", ZETA: "ζ"}


def choices(sweep: Sweep) -> Mapping[str, str]:
    """What the runs can be coloured by because they differ in it, and what that is called."""
    varies = {
        LAMBDA: len({setting.lam for setting in sweep.settings}) > 1,
        REGULARIZER: len(sweep.methods) > 1,
        ZETA: len(sweep.zetas) > 1,
    }
    named = {by: TITLES[by] for by, several in varies.items() if several}
    return named | {field: inside(field) for field in sweep.fields}


@dataclass(frozen=True)
class Colouring:
    """The colour of every setting of a sweep. ``by`` is one of its choices; anything else means the usual one."""

    sweep: Sweep
    by: str = ""

    @cached_property
    def key(self) -> str:
        """What the colours stand for: λ where there is one regularizer, else the regularizer."""
        if self.by in choices(self.sweep):
            return self.by
        return REGULARIZER if len(self.sweep.methods) > 1 else LAMBDA

    def value(self, setting: Setting) -> Cell:
        """What its colour stands for; None where that means nothing to it, as ζ does to plain training."""
        if self.key == LAMBDA:
            return setting.lam
        if self.key == REGULARIZER:
            return NAMES[setting.regularizer]
        return setting.zeta if self.key == ZETA else setting.values[self._place]

    def colour(self, setting: Setting) -> str:
        """Plain training has that of λ = 0 wherever the colours do not stand for something that it has, too."""
        value = self.value(setting)
        if self.key == LAMBDA:
            return palette.of_lambda(setting.lam)
        if value is None or (self.key == REGULARIZER and setting.baseline):
            return palette.of_lambda(0)
        if self.key == REGULARIZER:
            return palette.METHODS[setting.regularizer]
        if self.key == ZETA:
            return palette.of_zeta(float(value))
        place = self._values.index(value)
        return palette.SERIES[place] if place < len(palette.SERIES) else palette.QUIET

    def of_family(self, family: Family) -> str:
        """The colour of all its settings but plain training; a quiet one where λ gives each its own."""
        if self.key == LAMBDA:
            return palette.QUIET
        return self.colour(Setting(family.regularizer, 1.0, family.zeta, family.values))

    def label(self, setting: Setting) -> str:
        """What its colour stands for, as a legend has it."""
        value = self.value(setting)
        if value is None:
            return "λ = 0"
        if self.key in (LAMBDA, ZETA):
            return f"{TITLES[self.key]} = {short(float(value))}"
        return words(value)

    @cached_property
    def _place(self) -> int:
        return self.sweep.fields.index(self.key)

    @cached_property
    def _values(self) -> list[Cell]:
        return [cell(one) for one in self.sweep.grid[self.key]]
