"""The numbers of a report: headline numbers, all numbers by group or as a table, reference values, and hubs."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple, TypeVar

from app.db.models import Embedding, Measurement
from app.figures.figure import Cell, FigureTable
from isoscope.core.formatting import capitalized, tick
from isotropy.catalog import GROUPS, MEASURES, SIMILARITIES, Measure, Similarity, measures_in, references

# The lists that a measurement's detail may hold, and the heading of the column that tells their items apart.
DETAIL_HEADINGS = {"by_label": "label", "dimensions": "dimension", "parts": "part", "values": "k"}
SIMILARITY_CHOICES = {slug.value: capitalized(title) for slug, title in SIMILARITIES.items()}
"""Titles of the similarities in the form of a draft, by form value."""
REFERENCE_ENCODER = "all-MiniLM-L6-v2"
Grouped = TypeVar("Grouped")


class ReadingItem(NamedTuple):
    """One of the many values of a measure. Its key is k, a label, a dimension or the name of a part."""

    key: int | str
    value: Cell
    n: int
    reason: str = ""
    unbiased: float | None = None
    se: float | None = None


class Reading(NamedTuple):
    """A measurement, its measure, and the ends of the measure's range; None where an end is infinite."""

    measure: Measure
    measurement: Measurement
    ends: tuple[float, float] | None
    rows: int
    d: int
    estimates: tuple[tuple[str, float], ...] = ()  # Values by estimator, if several estimate the same quantity

    @property
    def estimate_range(self) -> tuple[float, float] | None:
        values = [value for _, value in self.estimates]
        return (min(values), max(values)) if len(values) > 1 else None

    @property
    def value(self) -> float | None:
        value = self.measurement.value
        return int(value) if self.measure.is_count and value is not None else value

    @property
    def range(self) -> str:
        if self.measurement.n and self.measure.bounds is not None:
            low, high = self.measure.bounds(self.measurement.n, self.d)
            if low == high:
                return f"only {tick(low)} is possible"
        return self.measure.range_text

    @property
    def similarity(self) -> str:
        has_similarity = "similarity" in (self.measurement.detail or {})
        return SIMILARITIES[get_similarity(self.measurement)] if has_similarity else ""

    @property
    def items(self) -> list[ReadingItem]:
        n = self.measurement.n
        match self.measurement.detail:
            case {"by_label": labels}:
                return [
                    ReadingItem(
                        label["label"], label["value"], label["n"], label["reason"] or "", label.get("unbiased")
                    )
                    for label in labels
                ]
            case {"dimensions": dimensions}:
                return [ReadingItem(dimension["dimension"], dimension["value"], n) for dimension in dimensions]
            case {"parts": parts}:
                return [
                    ReadingItem(
                        name, int(value) if name in self.measure.count_details and value is not None else value, n
                    )
                    for name, value in parts.items()
                ]
            case {"values": values}:
                errors = (self.measurement.detail or {}).get("se") or [None] * len(values)
                return [
                    ReadingItem(k, value, n, se=se) for k, (value, se) in enumerate(zip(values, errors, strict=True), 1)
                ]
        return []

    @property
    def table(self) -> FigureTable:
        """Return the items with those columns that have a value. Only items by label have a column for n."""
        detail, items = self.measurement.detail or {}, self.items
        heading = next(heading for name, heading in DETAIL_HEADINGS.items() if name in detail)
        keys: list[Cell] = [str(item.key).replace("_", " ") if heading == "part" else item.key for item in items]
        columns: dict[str, list[Cell]] = {heading: keys, "value": [item.value for item in items]}
        for name in ("se", "unbiased", "n", "reason"):
            cells = [getattr(item, name) for item in items]
            if (name == "n" and heading == "label") or (name != "n" and any(cell not in (None, "") for cell in cells)):
                columns[name] = cells
        return FigureTable(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def list_readings(embedding: Embedding) -> list[Reading]:
    measurements = {measurement.measure: measurement for measurement in embedding.measurements}
    d, rows = embedding.d or 1, embedding.n_measured
    return [
        Reading(measure, measurements[slug], measure.bounds_for(measurements[slug].n, d), rows, d)
        for slug, measure in MEASURES.items()
        if slug in measurements
    ]


def list_headlines(embedding: Embedding) -> list[Reading]:
    """Return the readings at the top of a report, each with the values of all estimators of its quantity."""
    readings = {reading.measure.slug: reading for reading in list_readings(embedding)}
    headlines = []
    for measure in measures_in("report"):
        if measure.slug in readings:
            estimators = [entry for entry in MEASURES.values() if measure.slug in (entry.slug, entry.listed_with)]
            values = [(entry.name.rpartition(", ")[2], readings.get(entry.slug)) for entry in estimators]
            estimates = [(name, reading.value) for name, reading in values if reading and reading.value is not None]
            headlines.append(readings[measure.slug]._replace(estimates=tuple(estimates) if len(estimators) > 1 else ()))
    return headlines


class ReadingFamily(NamedTuple):
    """A reading and its variants."""

    reading: Reading
    variants: list[Reading]


def group_readings(embedding: Embedding) -> dict[str, list[ReadingFamily]]:
    readings = {reading.measure.slug: reading for reading in list_readings(embedding)}
    families = {
        slug: ReadingFamily(reading, [])
        for slug, reading in readings.items()
        if reading.measure.variant_of not in readings
    }
    for reading in readings.values():
        if reading.measure.variant_of in families:
            families[reading.measure.variant_of].variants.append(reading)
    return group_items(families.values(), lambda family: family.reading.measure)


def group_items(items: Iterable[Grouped], get_measure: Callable[[Grouped], Measure]) -> dict[str, list[Grouped]]:
    """Group items under the headings of their measures' groups, in the order of the groups. Leave out empty groups."""
    groups: dict[str, list[Grouped]] = {group: [] for group in GROUPS}
    for item in items:
        groups[get_measure(item).group].append(item)
    return {heading: groups[group] for group, heading in GROUPS.items() if groups[group]}


def tabulate_readings(embedding: Embedding) -> FigureTable:
    """Return a row for each measurement, followed by rows of its items."""
    rows: list[list[Cell]] = []
    for reading in list_readings(embedding):
        slug, stored = reading.measure.slug, reading.measurement
        rows.append([slug, None, reading.value, None, stored.se, stored.low, stored.high, stored.n, stored.reason])
        rows += [
            [slug, item.key, item.value, item.unbiased, item.se, None, None, item.n, item.reason]
            for item in reading.items
        ]
    return FigureTable(["measure", "item", "value", "unbiased", "se", "low", "high", "n", "reason"], rows)


class ReferenceValue(NamedTuple):
    """The score of a known cloud on one measure."""

    name: str
    about: str
    value: float
    se: float | None
    n: int
    d: int


@cache
def list_references() -> dict[str, list[ReferenceValue]]:
    """Return the scores of known clouds, by the slug of the measure."""
    values: dict[str, list[ReferenceValue]] = {}
    for cloud in references():
        for slug, (value, se, n) in cloud.values.items():
            values.setdefault(slug, []).append(ReferenceValue(cloud.name, cloud.about, value, se, n, cloud.d))
    return values


class ReferenceBand(NamedTuple):
    """The smallest and the largest score of the reference encoder's layers on one measure."""

    encoder: str
    low: float
    high: float
    d: int


@cache
def list_bands() -> dict[str, ReferenceBand]:
    """Return the range of the reference encoder's scores, by the slug of the measure."""
    bands = {}
    for slug, values in list_references().items():
        if layers := [reference for reference in values if reference.name.startswith(REFERENCE_ENCODER)]:
            scores = [layer.value for layer in layers]
            bands[slug] = ReferenceBand(REFERENCE_ENCODER, min(scores), max(scores), layers[0].d)
    return bands


def get_similarity(measurement: Measurement) -> Similarity:
    """Return the similarity used to search neighbors. Earlier versions always used Euclidean distance."""
    return Similarity((measurement.detail or {}).get("similarity", Similarity.EUCLIDEAN))


class Hub(NamedTuple):
    """A row that is among the k nearest neighbors of many other rows; ``occurrences`` is their number."""

    row: int  # Position in the file, from 0
    name: str | None
    occurrences: int


class Hubs(NamedTuple):
    """The largest hubs of an embedding, the largest first."""

    hubs: list[Hub]
    k: int
    rows: int
    similarity: Similarity


def find_hubs(embedding: Embedding) -> Hubs | None:
    """Return the hubs of a report; None if hubness is undefined or was measured by an earlier version."""
    for measurement in embedding.measurements:
        if measurement.measure == "hubness" and measurement.detail and measurement.detail.get("hubs"):
            hubs = [Hub(**hub) for hub in measurement.detail["hubs"]]
            return Hubs(hubs, measurement.detail["k"], measurement.n, get_similarity(measurement))
    return None
