"""Subjects of a figure: an embedding or several, each with its color, and those that have nothing to draw."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any

from app.db.models import Embedding, Measurement
from app.figures import palette
from app.figures.figure import Cell, Columns, Table, plain
from app.figures.labels import short_names
from isoscope.core.formatting import count, plural


@dataclass(frozen=True)
class Subject:
    """Something measured, with what figures read of it."""

    name: str
    found: Mapping[str, Measurement]
    """By measure."""
    data: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """What no single measure holds, by slug: see ``FigureData``."""

    @classmethod
    def from_embedding(cls, embedding: Embedding, data: Mapping[str, dict[str, Any]] | None = None) -> "Subject":
        """An embedding, with the data of figures that were read."""
        return cls(embedding.name, {one.measure: one for one in embedding.measurements}, data or {})


UNEXPLAINED = "There is no value here."
UNMEASURED = "Not measured for this embedding."
VALUE_ONLY = "Only its value is stored."
LONGEST_NAME = 28


@dataclass(frozen=True)
class Series:
    """A subject as a figure draws it."""

    name: str
    """Told from the others."""
    short: str
    """The same, with what all names share left out or the middle cut."""
    colour: str
    subject: Subject

    @property
    def label(self) -> str:
        """The name as a plot may show it."""
        return plain(self.short, LONGEST_NAME)

    def has(self, what: str) -> bool:
        """Whether there is something to draw of a measure or of a figure's data."""
        if (found := self.subject.found.get(what)) is not None:
            return bool(found.detail)
        data = self.subject.data.get(what)
        return data is not None and data.get("reason") is None

    def tells(self, what: str) -> bool:
        """Whether a figure is due: there is something to draw, or a reason why there is not."""
        if what in self.subject.found:
            return self.has(what) or self.value(what) is None
        return what in self.subject.data

    def of(self, what: str) -> dict[str, Any]:
        """What a measure found beside its value, or the data of a figure; empty where there is nothing."""
        found = self.subject.found.get(what)
        return (found.detail if found is not None else self.subject.data.get(what)) or {}

    def value(self, measure: str) -> float | None:
        """The value of a measure."""
        found = self.subject.found.get(measure)
        return found.value if found is not None else None

    def n(self, measure: str) -> int:
        """Rows behind a measure; 0 where it was not measured."""
        found = self.subject.found.get(measure)
        return found.n if found is not None else 0

    def reason(self, what: str) -> str:
        """Why there is nothing to draw."""
        if (found := self.subject.found.get(what)) is not None:
            return VALUE_ONLY if found.value is not None else found.reason or UNEXPLAINED
        return self.of(what).get("reason") or UNMEASURED


@dataclass(frozen=True)
class Overlay:
    """The subjects of one figure. ``several`` also where only one of several has what it shows."""

    series: tuple[Series, ...]
    several: bool

    @classmethod
    def from_subjects(cls, subjects: Sequence[Subject]) -> "Overlay":
        """All subjects in their order, whose names differ."""
        names = [subject.name for subject in subjects]
        colours = [*palette.SERIES, *[palette.QUIET] * len(names)]
        series = (Series(*one) for one in zip(names, short_names(names, LONGEST_NAME), colours, subjects, strict=False))
        return cls(tuple(series), len(names) > 1)

    def having(self, what: str) -> "Overlay":
        """Those that have it."""
        return replace(self, series=tuple(one for one in self.series if one.has(what)))

    def lacking(self, what: str) -> str:
        """A sentence that names those that do not, with their reasons; empty where all do."""
        missing = [f"{one.name}: {one.reason(what)}" for one in self.series if not one.has(what)]
        return f" Not drawn: {' '.join(missing)}" if missing else ""

    def each(self, say: Callable[[Series], str]) -> str:
        """What is said of the one subject, or of each with its name."""
        if not self.several:
            return say(self.series[0])
        return ", ".join(f"{say(one)} ({one.short})" for one in self.series)

    def rows(self, n: Callable[[Series], int]) -> str:
        """The rows behind the figure: n = 8,000 rows; of each subject, unless they are as many."""
        sizes = {n(one) for one in self.series}
        if len(sizes) > 1:
            return f"n = {self.each(lambda one: count(n(one)))} rows"
        return f"n = {plural(sizes.pop(), 'row')}{' each' if self.several else ''}"

    def hover(self, one: Series, words: str) -> str:
        """A template of what is told at a point of a subject, of several after its name."""
        return f"{one.label}<br>{words}<extra></extra>" if self.several else f"{words}<extra></extra>"

    def table(self, index: str, columns: Mapping[str, Callable[[Series], Sequence[Cell]]], *, start: int = 1) -> Table:
        """A row for each place of the longest list, with the columns of each subject; shorter lists leave gaps."""
        heads = [f"{head}: {one.name}" if self.several else head for one in self.series for head in columns]
        lists = [read(one) for one in self.series for read in columns.values()]
        return Table([index, *heads], [[i, *row] for i, row in enumerate(zip_longest(*lists), start)])

    def stacked(self, columns: Mapping[str, Callable[[Series], Sequence[Cell]]]) -> Table:
        """The rows of each subject below those of the one before, with its name where there are several."""
        if not self.several:
            return Table(list(columns), Columns(*(read(self.series[0]) for read in columns.values())))
        lists = [[read(one) for read in columns.values()] for one in self.series]
        names = [one.name for one, (first, *_) in zip(self.series, lists, strict=True) for _ in first]
        return Table(
            ["subject", *columns], Columns(names, *(list(chain(*parts)) for parts in zip(*lists, strict=True)))
        )
