"""The numbers of a report: the few that head it, all of them by group, the same as one table; the greatest hubs."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple, TypeVar

from app.db.models import Embedding, Measurement
from app.figures.figure import Cell, Table
from isoscope.core.formatting import capitalized, tick
from isotropy.catalog import GROUPS, MEASURES, SIMILARITIES, Measure, Similarity, measures_in, references

Grouped = TypeVar("Grouped")

# The lists that a measurement's detail may hold, and what each of their values is of.
LISTS = {"by_label": "label", "dimensions": "dimension", "parts": "part", "values": "k"}


class Item(NamedTuple):
    """One of the many values of a measure: the k-th, or that of a label, a dimension or a part."""

    of: int | str
    value: Cell
    n: int
    reason: str = ""
    unbiased: float | None = None
    se: float | None = None


class Reading(NamedTuple):
    """A number with the measure it is of, the ends of its range, and the cloud it could have been of."""

    measure: Measure
    found: Measurement
    ends: tuple[float, float] | None
    rows: int
    d: int
    estimates: tuple[tuple[str, float], ...] = ()
    """By estimator, where several of one thing are told together."""

    @property
    def across(self) -> tuple[float, float] | None:
        """The least and the greatest estimate, where there are several."""
        values = [value for _, value in self.estimates]
        return (min(values), max(values)) if len(values) > 1 else None

    @property
    def value(self) -> float | None:
        """The number, a whole one where it counts something."""
        value = self.found.value
        return int(value) if self.measure.is_count and value is not None else value

    @property
    def range(self) -> str:
        """The range in words, for a number that has no ends to stand between."""
        if self.found.n and self.measure.bounds is not None:
            low, high = self.measure.bounds(self.found.n, self.d)
            if low == high:
                return f"only {tick(low)} is possible"
        return self.measure.range_text

    @property
    def similarity(self) -> str:
        """By which neighbors were near, of a measure that says so; else empty."""
        return SIMILARITIES[similarity_of(self.found)] if "similarity" in (self.found.detail or {}) else ""

    @property
    def items(self) -> list[Item]:
        """The values of a measure that has many."""
        n = self.found.n
        match self.found.detail:
            case {"by_label": labels}:
                return [
                    Item(one["label"], one["value"], one["n"], one["reason"] or "", one.get("unbiased"))
                    for one in labels
                ]
            case {"dimensions": dimensions}:
                return [Item(one["dimension"], one["value"], n) for one in dimensions]
            case {"parts": parts}:
                return [
                    Item(name, int(value) if name in self.measure.counts and value is not None else value, n)
                    for name, value in parts.items()
                ]
            case {"values": values}:
                errors = (self.found.detail or {}).get("se") or [None] * len(values)
                return [Item(k, value, n, se=se) for k, (value, se) in enumerate(zip(values, errors, strict=True), 1)]
        return []

    @property
    def table(self) -> Table:
        """The items: what each is of, its value and, of labels, all that is known beside it."""
        of = next(word for name, word in LISTS.items() if name in (self.found.detail or {}))
        columns: dict[str, list[Cell]] = {
            of: [str(one.of).replace("_", " ") if of == "part" else one.of for one in self.items],
            "value": [one.value for one in self.items],
            "se": [one.se for one in self.items],
            "unbiased": [one.unbiased for one in self.items],
            "n": [one.n for one in self.items],
            "reason": [one.reason for one in self.items],
        }
        if of != "label":
            del columns["n"]
        for name in ("se", "unbiased", "reason"):
            if not any(cell not in (None, "") for cell in columns[name]):
                del columns[name]
        return Table(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def headlines_of(embedding: Embedding) -> list[Reading]:
    """The numbers that head the report."""
    readings = {reading.measure.slug: reading for reading in readings_of(embedding)}
    return [
        readings[one.slug]._replace(estimates=_estimates(one, readings))
        for one in measures_in("report")
        if one.slug in readings
    ]


def _estimates(head: Measure, readings: Mapping[str, Reading]) -> tuple[tuple[str, float], ...]:
    """Return what every measure of the same says, by what sets its name apart; none where there is only this one."""
    same = [one for one in MEASURES.values() if one is head or one.listed_with == head.slug]
    found = [(one.name.rpartition(", ")[2], readings[one.slug].value) for one in same if one.slug in readings]
    return tuple((name, value) for name, value in found if value is not None) if len(same) > 1 else ()


class Idea(NamedTuple):
    """A reading with its variants, which tell the same in other ways."""

    reading: Reading
    variants: list[Reading]


def groups_of(embedding: Embedding) -> dict[str, list[Idea]]:
    """All numbers by the heading of their group; a group of which nothing was measured is left out."""
    found = {one.measure.slug: one for one in readings_of(embedding)}
    ideas = {slug: Idea(one, []) for slug, one in found.items() if one.measure.variant_of not in found}
    for one in found.values():
        if one.measure.variant_of in ideas:
            ideas[one.measure.variant_of].variants.append(one)
    return grouped(ideas.values(), lambda idea: idea.reading.measure)


def grouped(items: Iterable[Grouped], measure: Callable[[Grouped], Measure]) -> dict[str, list[Grouped]]:
    """What is of some measure, in the order given by the heading of its group; a group without any is left out."""
    groups: dict[str, list[Grouped]] = {group: [] for group in GROUPS}
    for one in items:
        groups[measure(one).group].append(one)
    return {heading: groups[group] for group, heading in GROUPS.items() if groups[group]}


def table_of(embedding: Embedding) -> Table:
    """Every measurement in a row of its own, its items in the rows below it."""
    rows: list[list[Cell]] = []
    for reading in readings_of(embedding):
        slug, found = reading.measure.slug, reading.found
        rows.append([slug, None, reading.value, None, found.se, found.low, found.high, found.n, found.reason])
        rows += [
            [slug, one.of, one.value, one.unbiased, one.se, None, None, one.n, one.reason] for one in reading.items
        ]
    return Table(["measure", "item", "value", "unbiased", "se", "low", "high", "n", "reason"], rows)


def readings_of(embedding: Embedding) -> list[Reading]:
    """What was measured and is in the catalog, in the catalog's order."""
    found = {measurement.measure: measurement for measurement in embedding.measurements}
    d, rows = embedding.d or 1, embedding.n_measured
    return [
        Reading(measure, found[slug], measure.ends(found[slug].n, d), rows, d)
        for slug, measure in MEASURES.items()
        if slug in found
    ]


class Known(NamedTuple):
    """What a known cloud scores on one measure."""

    name: str
    about: str
    value: float
    se: float | None
    n: int
    """Rows behind the value."""
    d: int


@cache
def reference_values() -> dict[str, list[Known]]:
    """Return what known clouds score, by slug of the measure. Measures without any are left out."""
    values: dict[str, list[Known]] = {}
    for cloud in references():
        for slug, (value, se, n) in cloud.values.items():
            values.setdefault(slug, []).append(Known(cloud.name, cloud.about, value, se, n, cloud.d))
    return values


CHOICES = {"": "Default"} | {one.value: capitalized(title) for one, title in SIMILARITIES.items()}
"""What the form of a draft offers, by the value that it sends."""


def similarity_of(found: Measurement) -> Similarity:
    """Return by which neighbors were near; earlier versions measured by Euclidean distance alone."""
    return Similarity((found.detail or {}).get("similarity", Similarity.EUCLIDEAN))


class Hub(NamedTuple):
    """A row, and of how many others it is among the k nearest."""

    row: int
    """Place in the file, from 0."""
    name: str | None
    occurrences: int


class Hubs(NamedTuple):
    """The greatest hubs of an embedding, the greatest first."""

    hubs: list[Hub]
    k: int
    rows: int
    """Distinct rows whose neighbors were searched."""
    similarity: Similarity


def hubs_of(embedding: Embedding) -> Hubs | None:
    """Return the hubs of a report; None where an earlier version measured it, or hubness is undefined."""
    found = next((one for one in embedding.measurements if one.measure == "hubness"), None)
    if found is None or not found.detail or not found.detail.get("hubs"):
        return None
    return Hubs([Hub(**one) for one in found.detail["hubs"]], found.detail["k"], found.n, similarity_of(found))
