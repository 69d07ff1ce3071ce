"""Subjects of a figure: an embedding or several, each with its color, and those that have nothing to draw."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any

from app.db.models import Embedding, Measurement
from app.figures import palette
from app.figures.figure import Cell, Columns, FigureTable, plain
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
        return cls(
            embedding.name, {measurement.measure: measurement for measurement in embedding.measurements}, data or {}
        )


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

    def has(self, slug: str) -> bool:
        """Whether there is something to draw of a measure or of a figure's data."""
        if (measurement := self.subject.found.get(slug)) is not None:
            return bool(measurement.detail)
        data = self.subject.data.get(slug)
        return data is not None and data.get("reason") is None

    def tells(self, slug: str) -> bool:
        """Whether a figure is due: there is something to draw, or a reason why there is not."""
        if slug in self.subject.found:
            return self.has(slug) or self.value(slug) is None
        return slug in self.subject.data

    def of(self, slug: str) -> dict[str, Any]:
        """What a measure found beside its value, or the data of a figure; empty where there is nothing."""
        measurement = self.subject.found.get(slug)
        return (measurement.detail if measurement is not None else self.subject.data.get(slug)) or {}

    def value(self, measure: str) -> float | None:
        """The value of a measure."""
        measurement = self.subject.found.get(measure)
        return measurement.value if measurement is not None else None

    def n(self, measure: str) -> int:
        """Rows behind a measure; 0 where it was not measured."""
        measurement = self.subject.found.get(measure)
        return measurement.n if measurement is not None else 0

    def reason(self, slug: str) -> str:
        """Why there is nothing to draw."""
        if (measurement := self.subject.found.get(slug)) is not None:
            return VALUE_ONLY if measurement.value is not None else measurement.reason or UNEXPLAINED
        return self.of(slug).get("reason") or UNMEASURED


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
        series = (
            Series(*columns)
            for columns in zip(names, short_names(names, LONGEST_NAME), colours, subjects, strict=False)
        )
        return cls(tuple(series), len(names) > 1)

    def having(self, slug: str) -> "Overlay":
        """Those that have it."""
        return replace(self, series=tuple(series for series in self.series if series.has(slug)))

    def lacking(self, slug: str) -> str:
        """A sentence that names those that do not, with their reasons; empty where all do."""
        missing = [f"{series.name}: {series.reason(slug)}" for series in self.series if not series.has(slug)]
        return f" Not drawn: {' '.join(missing)}" if missing else ""

    def each(self, describe: Callable[[Series], str]) -> str:
        """What is said of the one subject, or of each with its name."""
        if not self.several:
            return describe(self.series[0])
        return ", ".join(f"{describe(series)} ({series.short})" for series in self.series)

    def rows(self, n: Callable[[Series], int]) -> str:
        """The rows behind the figure: n = 8,000 rows; of each subject, unless they are as many."""
        sizes = {n(series) for series in self.series}
        if len(sizes) > 1:
            return f"n = {self.each(lambda series: count(n(series)))} rows"
        return f"n = {plural(sizes.pop(), 'row')}{' each' if self.several else ''}"

    def hover(self, series: Series, words: str) -> str:
        """A template of what is told at a point of a subject, of several after its name."""
        return f"{series.label}<br>{words}<extra></extra>" if self.several else f"{words}<extra></extra>"

    def table(
        self, index: str, columns: Mapping[str, Callable[[Series], Sequence[Cell]]], *, start: int = 1
    ) -> FigureTable:
        """A row for each place of the longest list, with the columns of each subject; shorter lists leave gaps."""
        heads = [f"{head}: {series.name}" if self.several else head for series in self.series for head in columns]
        lists = [read(series) for series in self.series for read in columns.values()]
        return FigureTable([index, *heads], [[i, *row] for i, row in enumerate(zip_longest(*lists), start)])

    def stacked(self, columns: Mapping[str, Callable[[Series], Sequence[Cell]]]) -> FigureTable:
        """The rows of each subject below those of the one before, with its name where there are several."""
        if not self.several:
            return FigureTable(list(columns), Columns(*(read(self.series[0]) for read in columns.values())))
        lists = [[read(series) for read in columns.values()] for series in self.series]
        names = [series.name for series, (first, *_) in zip(self.series, lists, strict=True) for _ in first]
        return FigureTable(
            ["subject", *columns], Columns(names, *(list(chain(*parts)) for parts in zip(*lists, strict=True)))
        )
