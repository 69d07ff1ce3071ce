"""Colors, dashes, symbols and legend entries that tell settings apart."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import wrap
from typing import Any, TypeVar

from app.db.options.regularization import REGULARIZER_NAMES
from app.figures import palette
from app.figures.figure import Cell, escape_text
from app.figures.labels import field_in_sentence, shorten_names
from app.results.run_table import Family, RunTable, Setting, cell_text
from isoscope.core.formatting import short

Entry = TypeVar("Entry", Setting, Family)

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "bowtie")
# Lines that a legend has room for.
MAX_ENTRIES = 8
MAX_NAME_LENGTH = 44
HOVER_WIDTH, HOVER_LINES = 80, 6
LAMBDA, REGULARIZER, ZETA = "lambda", "regularizer", "zeta"
TITLES = {LAMBDA: "λ", REGULARIZER: "regularizer", ZETA: "ζ"}


def color(table: RunTable, setting: Setting) -> str:
    """Return the default color of a setting: by λ if there is one regularizer, else by the regularizer."""
    return Coloring(table).color(setting)


def dash(table: RunTable, setting: Setting) -> str:
    """Return a dash that distinguishes lines of one hue: solid for the λ closest to 0."""
    one_hue = len(table.methods) > 1
    same_hue_settings = [
        candidate
        for candidate in table.settings
        if candidate.regularizer is setting.regularizer and (one_hue or (candidate.lam < 0) == (setting.lam < 0))
    ]
    return DASHES[sorted(same_hue_settings, key=lambda candidate: abs(candidate.lam)).index(setting) % len(DASHES)]


def symbol(table: RunTable, family: Family) -> str:
    """Return the symbol of a family; a baseline, which belongs to several, is a circle."""
    return SYMBOLS[table.families.index(family) % len(SYMBOLS)] if family in table.families else SYMBOLS[0]


def entry(table: RunTable, setting: Setting, drawn: Sequence[Setting]) -> dict[str, Any]:
    """Return the legend entry of a line: its own, or one per color if many lines are drawn."""
    if len(drawn) <= MAX_ENTRIES:
        name = legend_names(table, drawn, table.label)[drawn.index(setting)]
        return {"name": name, "legendgroup": name}
    coloring = Coloring(table)
    name = coloring.label(setting)
    leader = next(candidate for candidate in drawn if coloring.label(candidate) == name)
    return {"name": name, "legendgroup": name, "showlegend": setting == leader}


def hover_label(table: RunTable, setting: Setting) -> str:
    """Wrap the label of a setting into lines for a hover text."""
    lines = wrap(table.label(setting), HOVER_WIDTH, max_lines=HOVER_LINES, placeholder="…")
    return "<br>".join(escape_text(line, HOVER_WIDTH) for line in lines)


def legend_names(
    table: RunTable, entries: Sequence[Entry], label: Callable[[Entry, Collection[str]], str]
) -> list[str]:
    """Return distinct labels that fit a legend: redundant fields are dropped from labels that are too long."""
    fields = table.fields
    for field in reversed(table.fields):
        if all(len(label(item, fields)) <= MAX_NAME_LENGTH for item in entries):
            break
        remaining_fields = [name for name in fields if name != field]
        if len({label(item, remaining_fields) for item in entries}) == len(entries):
            fields = remaining_fields
    names = shorten_names([label(item, fields) for item in entries], MAX_NAME_LENGTH)
    return [escape_text(name, MAX_NAME_LENGTH) for name in names]


def color_choices(table: RunTable) -> Mapping[str, str]:
    """Return the settings that colors can stand for, by name: those in which runs differ."""
    varies = {
        LAMBDA: len({setting.lam for setting in table.settings}) > 1,
        REGULARIZER: len(table.methods) > 1,
        ZETA: len(table.zetas) > 1,
    }
    coordinates = {key: TITLES[key] for key, differs in varies.items() if differs}
    return coordinates | {field: field_in_sentence(field) for field in table.fields}


@dataclass(frozen=True)
class Coloring:
    """Colors of settings. ``by`` is one of ``color_choices``; anything else selects the default."""

    table: RunTable
    by: str = ""

    @cached_property
    def key(self) -> str:
        """Return the setting that colors stand for: by default, λ with one regularizer, else the regularizer."""
        if self.by and self.by in color_choices(self.table):
            return self.by
        return REGULARIZER if len(self.table.methods) > 1 else LAMBDA

    def value(self, setting: Setting) -> Cell:
        """Return the value that a setting is colored by; None if it has no effect, as ζ on plain training."""
        if self.key == LAMBDA:
            return setting.lam
        if self.key == REGULARIZER:
            return REGULARIZER_NAMES[setting.regularizer]
        return setting.zeta if self.key == ZETA else setting.values[self.table.fields.index(self.key)]

    def color(self, setting: Setting) -> str:
        """Return the color of a setting. Plain training has the color of λ = 0 unless it has its own value."""
        value = self.value(setting)
        if self.key == LAMBDA:
            return palette.lambda_color(setting.lam)
        if value is None or (self.key == REGULARIZER and setting.is_baseline):
            return palette.lambda_color(0)
        if self.key == REGULARIZER:
            return palette.METHODS[setting.regularizer]
        if self.key == ZETA:
            return palette.ordered_color(float(value))
        index = self.table.grid_cells[self.key].index(value)
        return palette.SERIES[index] if index < len(palette.SERIES) else palette.QUIET

    def family_color(self, family: Family) -> str:
        """Return the color of a family's settings: a quiet one if each λ has its own color."""
        return palette.QUIET if self.key == LAMBDA else self.color(Setting(family.regularizer, 1.0, *family[1:]))

    def label(self, setting: Setting) -> str:
        value = self.value(setting)
        if value is None:
            return "λ = 0"
        return f"{TITLES[self.key]} = {short(float(value))}" if self.key in (LAMBDA, ZETA) else cell_text(value)
