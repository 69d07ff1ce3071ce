"""What is wrong with an embedding, in the words of its report."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from app.db.models import Embedding
from isoscope.core.effects import effect_words
from isotropy.catalog import FINDINGS, METHODS, MethodEntry

MOST_MARKED = 5000
"""Rows of a finding that a map is told to mark."""


class Place(NamedTuple):
    """Where a report shows a finding: a part of it, and a figure there."""

    tab: str
    anchor: str
    words: str


BY_DIMENSION = Place("directions", "figure-activation", "See them by dimension")
ON_MAP = Place("map", "map", "See them on the map")
PLACES = {
    "collapsed": Place("overview", "figure-spectrum", "See the spectrum"),
    "common_mean": Place("overview", "figure-cosines", "See the cosines"),
    "too_few_rows": Place("map", "sample-size", "See how many rows it takes"),
}
"""Of findings that name neither rows nor dimensions."""
UNMAPPED = "not_finite"
"""Its rows are measured nowhere, so no map has them."""


class Marked(NamedTuple):
    """A finding whose rows or dimensions a figure marks."""

    slug: str
    title: str
    rows: list[int]
    row_count: int
    dimensions: list[int]


def find_marked(embedding: Embedding, every: Mapping[str, Any], slug: str) -> Marked | None:
    """Return the finding that is asked for with its rows or dimensions, None where there is none.

    Args:
        embedding: measured.
        every: all rows and dimensions of findings by slug, where these are kept beside the first ones.
        slug: of the finding.

    """
    one = next((one for one in embedding.findings if one["slug"] == slug), None)
    if one is None:
        return None
    named = every.get(slug, one)
    return Marked(slug, one["title"], named["rows"][:MOST_MARKED], one["row_count"], named.get("dimensions", []))


class ShownFinding(NamedTuple):
    """A finding as the page shows it."""

    slug: str
    severity: str
    title: str
    evidence: str
    advice: str
    rows: list[int]
    row_count: int
    names: list[str] | None
    dimensions: list[int]
    dimension_count: int
    dimension_names: list[str] | None
    effect: str
    """What mending it changes, as a sentence."""
    is_removable: bool
    """Whether the cloud can be measured without its rows or dimensions."""
    measured_without: str | None
    """Id of the selection that was measured so."""
    method: MethodEntry | None
    """A method of post-processing that mends it."""
    place: Place | None
    """The figure that shows it."""


def shown_findings(embedding: Embedding, selections: Mapping[str, str], anchors: Collection[str]) -> list[ShownFinding]:
    """Return the findings in the order in which they are stored, the most severe first.

    Args:
        embedding: measured.
        selections: ids of what was measured without the rows or dimensions of a finding, by its slug.
        anchors: of the figures that the report has.

    """
    return [_shown(one, selections, anchors) for one in embedding.findings]


def _place(one: dict[str, Any], anchors: Collection[str]) -> Place | None:
    if one.get("dimension_count"):
        place: Place | None = BY_DIMENSION
    elif one["row_count"] and one["slug"] != UNMAPPED:
        place = ON_MAP
    else:
        place = PLACES.get(one["slug"])
    return place if place and place.anchor in anchors else None


def _shown(one: dict[str, Any], selections: Mapping[str, str], anchors: Collection[str]) -> ShownFinding:
    entry = FINDINGS.get(one["slug"])
    effect = one["effect"]
    return ShownFinding(
        slug=one["slug"],
        severity=one["severity"],
        title=one["title"],
        evidence=one["evidence"],
        advice=one["advice"],
        rows=one["rows"],
        row_count=one["row_count"],
        names=one["names"],
        # Older versions found rows only.
        dimensions=one.get("dimensions", []),
        dimension_count=one.get("dimension_count", 0),
        dimension_names=one.get("dimension_names"),
        effect=effect_words(one["slug"], effect["measure"], effect["before"], effect["after"], effect["after_se"]),
        is_removable=entry is not None and entry.removed is not None,
        measured_without=selections.get(one["slug"]),
        method=METHODS.get(entry.method) if entry is not None else None,
        place=_place(one, anchors),
    )
