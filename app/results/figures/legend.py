"""How settings are told apart where they are drawn: what colors stand for, dashes, symbols, the legend."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import wrap
from typing import Any, TypeVar

from app.db.options.regularization import NAMES
from app.figures import palette
from app.figures.figure import Cell, plain
from app.figures.labels import inside, short_names
from app.results.sweep import Family, Setting, Sweep, cell, cell_text
from isoscope.core.formatting import short
from isotropy.catalog import Regularizer

Entry = TypeVar("Entry", Setting, Family)

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "bowtie")

MOST_ENTRIES = 8
"""Lines that a legend has room for."""
LONGEST_NAME = 44
HOVER_WIDTH, HOVER_LINES = 80, 6


def colour(sweep: Sweep, setting: Setting) -> str:
    """By λ where there is one regularizer, else by the regularizer."""
    if setting.baseline or len(sweep.methods) < 2:
        return palette.of_lambda(setting.lam)
    return palette.METHODS[setting.regularizer]


def dash(sweep: Sweep, setting: Setting) -> str:
    """Tells apart the lines of settings that share a hue: solid for the least λ in size."""
    hue = _hue(sweep, setting)
    alike = sorted((one for one in sweep.settings if _hue(sweep, one) == hue), key=lambda one: abs(one.lam))
    return DASHES[alike.index(setting) % len(DASHES)]


def symbol(sweep: Sweep, setting: Setting) -> str:
    """Tells families apart; a baseline, which belongs to several, is a circle."""
    family = sweep.family(setting)
    return SYMBOLS[sweep.families.index(family) % len(SYMBOLS)] if family in sweep.families else SYMBOLS[0]


def group(sweep: Sweep, setting: Setting) -> str:
    """What its color stands for."""
    return NAMES[setting.regularizer] if len(sweep.methods) > 1 else f"λ = {short(setting.lam)}"


def entry(sweep: Sweep, setting: Setting, drawn: Sequence[Setting]) -> dict[str, Any]:
    """A line's place in the legend of those drawn: its own, or of many one for each color."""
    if len(drawn) <= MOST_ENTRIES:
        return {"name": names(sweep, drawn, sweep.label)[drawn.index(setting)]}
    name = group(sweep, setting)
    first = next(other for other in drawn if group(sweep, other) == name)
    return {"name": name, "legendgroup": name, "showlegend": setting == first}


def whole(sweep: Sweep, setting: Setting) -> str:
    """A setting as it is told where a pointer is, in as many lines as it takes."""
    lines = wrap(sweep.label(setting), HOVER_WIDTH, max_lines=HOVER_LINES, placeholder="…")
    return "<br>".join(plain(line, HOVER_WIDTH) for line in lines)


def names(sweep: Sweep, of: Sequence[Entry], label: Callable[[Entry, Collection[str]], str]) -> list[str]:
    """Labels as a legend has room for them, no two alike: too long ones lose the fields that need not be told."""
    fields = sweep.fields
    for field in reversed(sweep.fields):
        if all(len(label(one, fields)) <= LONGEST_NAME for one in of):
            break
        fewer = [other for other in fields if other != field]
        if len({label(one, fewer) for one in of}) == len(of):
            fields = fewer
    return [plain(name, LONGEST_NAME) for name in short_names([label(one, fields) for one in of], LONGEST_NAME)]


def _hue(sweep: Sweep, setting: Setting) -> tuple[Regularizer, bool]:
    """What settings of nearly one color have in common: the regularizer, where there is but one also λ's sign."""
    return setting.regularizer, len(sweep.methods) < 2 and setting.lam < 0


LAMBDA, REGULARIZER, ZETA = "lambda", "regularizer", "zeta"
TITLES = {LAMBDA: "λ", REGULARIZER: "regularizer", ZETA: "ζ"}


def choices(sweep: Sweep) -> Mapping[str, str]:
    """What the runs can be colored by because they differ in it, and what that is called."""
    varies = {
        LAMBDA: len({setting.lam for setting in sweep.settings}) > 1,
        REGULARIZER: len(sweep.methods) > 1,
        ZETA: len(sweep.zetas) > 1,
    }
    named = {by: TITLES[by] for by, several in varies.items() if several}
    return named | {field: inside(field) for field in sweep.fields}


@dataclass(frozen=True)
class Colouring:
    """The color of every setting of a sweep. ``by`` is one of its choices; anything else means the usual one."""

    sweep: Sweep
    by: str = ""

    @cached_property
    def key(self) -> str:
        """What the colors stand for: λ where there is one regularizer, else the regularizer."""
        if self.by in choices(self.sweep):
            return self.by
        return REGULARIZER if len(self.sweep.methods) > 1 else LAMBDA

    def value(self, setting: Setting) -> Cell:
        """What its color stands for; None where that means nothing to it, as ζ does to plain training."""
        if self.key == LAMBDA:
            return setting.lam
        if self.key == REGULARIZER:
            return NAMES[setting.regularizer]
        return setting.zeta if self.key == ZETA else setting.values[self._place]

    def colour(self, setting: Setting) -> str:
        """Plain training has that of λ = 0 wherever the colors do not stand for something that it has, too."""
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
        """The color of all its settings but plain training; a quiet one where λ gives each its own."""
        if self.key == LAMBDA:
            return palette.QUIET
        return self.colour(Setting(family.regularizer, 1.0, family.zeta, family.values))

    def label(self, setting: Setting) -> str:
        """What its color stands for, as a legend has it."""
        value = self.value(setting)
        if value is None:
            return "λ = 0"
        if self.key in (LAMBDA, ZETA):
            return f"{TITLES[self.key]} = {short(float(value))}"
        return cell_text(value)

    @cached_property
    def _place(self) -> int:
        return self.sweep.fields.index(self.key)

    @cached_property
    def _values(self) -> list[Cell]:
        return [cell(one) for one in self.sweep.grid[self.key]]
