"""The subjects of a figure: embeddings or other clouds, each with its color."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

from app.db.models import Embedding, Measurement
from app.figures.figure import Cell, ColumnarRows, FigureTable, escape_text
from isoscope.core.formatting import count, plural

UNEXPLAINED = "There is no value here."
UNMEASURED = "Not measured for this embedding."
VALUE_ONLY = "Only its value is stored."
LONGEST_NAME = 28


@dataclass(frozen=True)
class Subject:
    """An embedding or another measured cloud, with the data that figures read."""

    name: str
    measurements: Mapping[str, Measurement]
    data: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Data of figures that belong to no single measure, by slug: see ``FigureData``."""
    flagged: Sequence[int] = ()
    """Dimensions that findings name, ascending."""

    @classmethod
    def from_embedding(
        cls, embedding: Embedding, data: Mapping[str, dict[str, Any]] | None = None, flagged: Sequence[int] = ()
    ) -> "Subject":
        measurements = {measurement.measure: measurement for measurement in embedding.measurements}
        return cls(embedding.name, measurements, data or {}, flagged)


@dataclass(frozen=True)
class Series:
    """A subject as a figure draws it."""

    name: str
    """Distinct among the subjects."""
    short_name: str
    """The name without what all names share, or without its middle if it is long."""
    color: str
    subject: Subject

    @property
    def label(self) -> str:
        return escape_text(self.short_name, LONGEST_NAME)

    def can_draw(self, slug: str) -> bool:
        """Return whether a figure can draw the measure, or the figure data, of a slug."""
        if (measurement := self.subject.measurements.get(slug)) is not None:
            return bool(measurement.detail)
        data = self.subject.data.get(slug)
        return data is not None and data.get("reason") is None

    def can_report(self, slug: str) -> bool:
        """Return whether the measure or figure data of a slug can be drawn or are undefined for a stored reason."""
        if slug in self.subject.measurements:
            return self.can_draw(slug) or self.value(slug) is None
        return slug in self.subject.data

    def detail(self, slug: str) -> dict[str, Any]:
        """Return the detail of a measure, or the figure data, of a slug; empty if there are none."""
        measurement = self.subject.measurements.get(slug)
        return (measurement.detail if measurement is not None else self.subject.data.get(slug)) or {}

    def value(self, measure: str) -> float | None:
        measurement = self.subject.measurements.get(measure)
        return measurement.value if measurement is not None else None

    def n(self, measure: str) -> int:
        measurement = self.subject.measurements.get(measure)
        return measurement.n if measurement is not None else 0

    def explain_missing(self, slug: str) -> str:
        if (measurement := self.subject.measurements.get(slug)) is not None:
            return VALUE_ONLY if measurement.value is not None else measurement.reason or UNEXPLAINED
        return self.detail(slug).get("reason") or UNMEASURED


@dataclass(frozen=True)
class Overlay:
    """The subjects that one figure draws. ``several``: whether it has several, even if it can draw only one of them."""

    series: tuple[Series, ...]
    several: bool

    def describe(self, describe_series: Callable[[Series], str]) -> str:
        """Return the description of a single subject, or of each subject with its name."""
        if not self.several:
            return describe_series(self.series[0])
        return ", ".join(f"{describe_series(series)} ({series.short_name})" for series in self.series)

    def describe_rows(self, measure: str) -> str:
        """Return "n = 8,000 rows" for a measure, with a number for each subject if they differ."""
        sizes = {series.n(measure) for series in self.series}
        if len(sizes) > 1:
            return f"n = {self.describe(lambda series: count(series.n(measure)))} rows"
        return f"n = {plural(sizes.pop(), 'row')}{' each' if self.several else ''}"

    def hover_template(self, series: Series, words: str) -> str:
        """Return the template of a hover text, which starts with the name if there are several subjects."""
        return f"{series.label}<br>{words}<extra></extra>" if self.several else f"{words}<extra></extra>"

    def table(
        self, index_heading: str, columns: Mapping[str, Callable[[Series], Sequence[Cell]]], *, start: int = 1
    ) -> FigureTable:
        """Put the columns of all subjects side by side, after a column of numbers from ``start``."""
        headings = [f"{name}: {series.name}" if self.several else name for series in self.series for name in columns]
        lists = [read(series) for series in self.series for read in columns.values()]
        rows = [[number, *cells] for number, cells in enumerate(zip_longest(*lists), start)]
        return FigureTable([index_heading, *headings], rows)

    def stacked_table(self, columns: Mapping[str, Callable[[Series], Sequence[Cell]]]) -> FigureTable:
        """Stack the rows of all subjects, after a column of their names if there are several."""
        if not self.several:
            return FigureTable(list(columns), ColumnarRows(*(read(self.series[0]) for read in columns.values())))
        lists = [[read(series) for read in columns.values()] for series in self.series]
        names = [series.name for series, (first, *_) in zip(self.series, lists, strict=True) for _ in first]
        return FigureTable(
            ["subject", *columns], ColumnarRows(names, *(list(chain(*parts)) for parts in zip(*lists, strict=True)))
        )
