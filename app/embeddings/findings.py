"""What is wrong with an embedding, in the words of its report."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.db.models import Embedding
from isoscope.core.formatting import number, starred, with_error
from isotropy.catalog import FINDINGS, MEASURES, METHODS, Method, effect_name


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
    effect_name: str
    before: str
    after: str
    is_removable: bool
    """Whether the cloud can be measured without its rows or dimensions."""
    measured_without: str | None
    """Id of the selection that was measured so."""
    method: Method | None
    """A method of post-processing that mends it."""


def shown_findings(embedding: Embedding, selections: Mapping[str, str]) -> list[ShownFinding]:
    """Return the findings in the order in which they are stored, the most severe first.

    Args:
        embedding: measured.
        selections: ids of what was measured without the rows or dimensions of a finding, by its slug.

    """
    return [_shown(one, selections) for one in embedding.findings]


def _shown(one: dict[str, Any], selections: Mapping[str, str]) -> ShownFinding:
    entry = FINDINGS.get(one["slug"])
    effect = one["effect"]
    measure = effect["measure"]
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
        effect_name=effect_name(measure) or starred(MEASURES[measure].name),
        before="undefined" if effect["before"] is None else number(effect["before"]),
        after="undefined" if effect["after"] is None else with_error(effect["after"], effect["after_se"] or None),
        is_removable=entry is not None and entry.removed is not None,
        measured_without=selections.get(one["slug"]),
        method=METHODS.get(entry.method) if entry is not None else None,
    )
