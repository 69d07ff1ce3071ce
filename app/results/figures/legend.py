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
from app.results.run_table import REGULARIZER, ZETA, Family, RunTable, Setting, cell_text
from isoscope.core.formatting import short

Entry = TypeVar("Entry", Setting, Family)

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "bowtie")
# Maximum number of lines with a legend entry each.
MAX_ENTRIES = 8
MAX_NAME_LENGTH = 44
MAX_HOVER_LINE_LENGTH, MAX_HOVER_LINES = 80, 6
# λ as a choice of colors in URLs. In other parameters and in tables it is "lam".
LAMBDA = "lambda"
TITLES = {LAMBDA: "λ", REGULARIZER: "regularizer", ZETA: "ζ"}


def color(table: RunTable, setting: Setting) -> str:
    """Return the default color of a setting: by λ if there is one regularizer, else by the regularizer."""
    return Coloring(table).color(setting)


def dash(table: RunTable, setting: Setting) -> str:
    """Return a plotly dash that distinguishes lines of one hue: solid for the λ closest to 0."""
    same_hue_settings = [candidate for candidate in table.settings if candidate.regularizer is setting.regularizer]
    if len(table.methods) < 2:  # the hue shows the sign of λ instead of the method
        same_hue_settings = [candidate for candidate in same_hue_settings if (candidate.lam < 0) == (setting.lam < 0)]
    same_hue_settings.sort(key=lambda candidate: abs(candidate.lam))
    return DASHES[same_hue_settings.index(setting) % len(DASHES)]


def symbol(table: RunTable, family: Family) -> str:
    """Return the plotly symbol of a family. A baseline that belongs to several families is a circle."""
    return SYMBOLS[table.families.index(family) % len(SYMBOLS)] if family in table.families else SYMBOLS[0]


def entry(table: RunTable, setting: Setting, drawn_settings: Sequence[Setting]) -> dict[str, Any]:
    """Return the legend properties of a setting's line. If many lines are drawn, those of one color share an entry."""
    if len(drawn_settings) <= MAX_ENTRIES:
        name = legend_names(table, drawn_settings, table.label)[drawn_settings.index(setting)]
        return {"name": name, "legendgroup": name}
    coloring = Coloring(table)
    name = coloring.label(setting)
    first_setting = next(candidate for candidate in drawn_settings if coloring.label(candidate) == name)
    return {"name": name, "legendgroup": name, "showlegend": setting == first_setting}


def hover_label(table: RunTable, setting: Setting) -> str:
    """Return the label of a setting as lines of a hover text, truncated after ``MAX_HOVER_LINES``."""
    lines = wrap(table.label(setting), MAX_HOVER_LINE_LENGTH, max_lines=MAX_HOVER_LINES, placeholder="…")
    return "<br>".join(escape_text(line, MAX_HOVER_LINE_LENGTH) for line in lines)


def legend_names(
    table: RunTable, entries: Sequence[Entry], label: Callable[[Entry, Collection[str]], str]
) -> list[str]:
    """Return a distinct name for each entry. Long names leave out fields that are not needed to distinguish them."""
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
    """Return the fields that colors can stand for, those in which runs differ, with their names in sentences."""
    varies = {
        LAMBDA: len({setting.lam for setting in table.settings}) > 1,
        REGULARIZER: len(table.methods) > 1,
        ZETA: len(table.zetas) > 1,
    }
    titles = {key: TITLES[key] for key, differs in varies.items() if differs}
    return titles | {field: field_in_sentence(field) for field in table.fields}


@dataclass(frozen=True)
class Coloring:
    """Colors of settings by one of their fields."""

    table: RunTable
    requested_key: str = ""
    """One of ``color_choices``; anything else selects the default."""

    @cached_property
    def key(self) -> str:
        """Return the field that colors stand for: by default, λ with one regularizer, else the regularizer."""
        if self.requested_key and self.requested_key in color_choices(self.table):
            return self.requested_key
        return REGULARIZER if len(self.table.methods) > 1 else LAMBDA

    def value(self, setting: Setting) -> Cell:
        """Return the value by which a setting is colored; None if the field has no effect, as ζ on plain training."""
        if self.key == LAMBDA:
            return setting.lam
        if self.key == REGULARIZER:
            return REGULARIZER_NAMES[setting.regularizer]
        return setting.zeta if self.key == ZETA else setting.values[self.table.fields.index(self.key)]

    def color(self, setting: Setting) -> str:
        """Return the color of a setting. Plain training has the color of λ = 0 unless the field applies to it."""
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
        """Return the color of a family's line: gray if its settings differ in color, because each λ has its own."""
        if self.key == LAMBDA:
            return palette.QUIET
        any_setting = Setting(family.regularizer, 1.0, family.zeta, family.values)
        return self.color(any_setting)

    def label(self, setting: Setting) -> str:
        """Return what the color of a setting stands for in the legend, such as "λ = 1"."""
        value = self.value(setting)
        if value is None:
            return "λ = 0"
        return f"{TITLES[self.key]} = {short(float(value))}" if self.key in (LAMBDA, ZETA) else cell_text(value)
