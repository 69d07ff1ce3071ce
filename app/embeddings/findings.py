"""What is wrong with an embedding, in the words of its report."""

from typing import Any, NamedTuple

from app.db.models import Embedding
from isoscope.core.formatting import number, starred, with_error
from isotropy.catalog import MEASURES, effect_name


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


def shown_findings(embedding: Embedding) -> list[ShownFinding]:
    """Return the findings in the order in which they are stored, the most severe first."""
    return [_shown(one) for one in embedding.findings]


def _shown(one: dict[str, Any]) -> ShownFinding:
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
    )
