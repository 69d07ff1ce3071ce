"""The numbers of a report: the few that head it, all of them by group, and the same as one table."""

from typing import NamedTuple

from app.db.models import Embedding, Measurement
from app.figures.figure import Cell, Table
from isotropy.catalog import GROUPS, MEASURES, Measure

HEADLINES = (
    "isoscore",
    "isoscore_unbiased",
    "participation_ratio",
    "mean_cosine",
    "mean_share",
    "twonn",
)


class Item(NamedTuple):
    """One of the many values of a measure: the k-th, or that of a label."""

    of: int | str
    value: float | None
    n: int
    reason: str = ""


class Reading(NamedTuple):
    """A number with the measure it is of, the ends of its range, and how many rows it could have been of."""

    measure: Measure
    found: Measurement
    ends: tuple[float, float] | None
    rows: int

    @property
    def items(self) -> list[Item]:
        """The values of a measure that has many."""
        detail = self.found.detail or {}
        labels = [Item(one["label"], one["value"], one["n"], one["reason"] or "") for one in detail.get("by_label", ())]
        return labels or [Item(k, value, self.found.n) for k, value in enumerate(detail.get("values", ()), 1)]

    @property
    def at(self) -> str:
        """Which of its values the number is; empty where there is one."""
        return self.measure.value

    @property
    def table(self) -> Table:
        """The items: k and value, or label, value, n and, where some have none, the reason."""
        if "by_label" not in (self.found.detail or {}):
            return Table(["k", "value"], [[one.of, one.value] for one in self.items])
        columns = ["label", "value", "n", *(["reason"] if any(one.reason for one in self.items) else [])]
        return Table(columns, [list(one[: len(columns)]) for one in self.items])


def headlines_of(embedding: Embedding) -> list[Reading]:
    """The numbers that head the report."""
    readings = {reading.measure.slug: reading for reading in readings_of(embedding)}
    return [readings[slug] for slug in HEADLINES if slug in readings]


def groups_of(embedding: Embedding) -> dict[str, list[Reading]]:
    """All numbers by the heading of their group; a group of which nothing was measured is left out."""
    readings = readings_of(embedding)
    groups = {heading: [one for one in readings if one.measure.group == group] for group, heading in GROUPS.items()}
    return {heading: group for heading, group in groups.items() if group}


def table_of(embedding: Embedding) -> Table:
    """Every measurement in a row of its own, its items in the rows below it."""
    rows: list[list[Cell]] = []
    for reading in readings_of(embedding):
        slug, found = reading.measure.slug, reading.found
        rows.append([slug, None, found.value, found.se, found.n, found.reason])
        rows += [[slug, of, value, None, n, reason] for of, value, n, reason in reading.items]
    return Table(["measure", "item", "value", "se", "n", "reason"], rows)


def readings_of(embedding: Embedding) -> list[Reading]:
    """What was measured and is in the catalogue, in the catalogue's order."""
    found = {measurement.measure: measurement for measurement in embedding.measurements}
    d, rows = embedding.d or 1, (embedding.n or 0) - (embedding.n_left_out or 0)
    return [
        Reading(measure, found[slug], measure.ends(found[slug].n, d), rows)
        for slug, measure in MEASURES.items()
        if slug in found
    ]
