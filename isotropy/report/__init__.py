"""Every measure of the catalog, of one cloud."""

from __future__ import annotations

from collections.abc import Iterable

from isotropy.catalog import MEASURES as CATALOG
from isotropy.cloud import Cloud
from isotropy.report import directions, labels, neighbours, spread, topology
from isotropy.report.finding import MeasureResult

__all__ = ["MEASURES", "MeasureResult", "measure"]

MEASURES = spread.MEASURES | directions.MEASURES | neighbours.MEASURES | topology.MEASURES | labels.MEASURES


def measure(cloud: Cloud, slugs: Iterable[str] | None = None) -> dict[str, MeasureResult]:
    """Return what was found, by slug, in the order of the catalog.

    Args:
        cloud: the points.
        slugs: of the measures to take, in any order; None takes all.

    Raises:
        ValueError: the catalog has no measure of a slug.

    """
    chosen = set(CATALOG if slugs is None else [slugs] if isinstance(slugs, str) else slugs)
    if unknown := chosen - CATALOG.keys():
        raise ValueError(f"There is no measure {min(unknown)!r}: choose among {', '.join(CATALOG)}.")
    results = {}
    for slug in CATALOG:
        if slug in chosen:
            finding = MEASURES[slug](cloud)
            results[slug] = finding if finding.score.value is not None else finding._replace(detail=None)
    return results
