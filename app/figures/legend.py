"""How settings are told apart where they are drawn: colours, dashes, symbols, and entries of a legend."""

from collections.abc import Callable, Collection, Sequence
from textwrap import wrap
from typing import Any, TypeVar

from app.db.regularizer_options import Regularizer
from app.figures import palette
from app.figures.figure import plain
from app.regularizers import NAMES
from app.results.captions import short_names
from app.results.setting import Family, Setting
from app.results.sweep import Sweep
from isoscope.core.formatting import short

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
    """What its colour stands for."""
    return NAMES[setting.regularizer] if len(sweep.methods) > 1 else f"λ = {short(setting.lam)}"


def entry(sweep: Sweep, setting: Setting, drawn: Sequence[Setting]) -> dict[str, Any]:
    """A line's place in the legend of those drawn: its own, or of many one for each colour."""
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
    """What settings of nearly one colour have in common: the regularizer, where there is but one also λ's sign."""
    return setting.regularizer, len(sweep.methods) < 2 and setting.lam < 0
