"""Every measure of the catalogue, of one cloud."""

from __future__ import annotations

from collections.abc import Callable, Collection

from isotropy.catalog import MEASURES as CATALOG
from isotropy.cloud import Cloud
from isotropy.report import directions, labels, neighbours, spread, topology
from isotropy.report.finding import Finding

__all__ = ["MEASURES", "Finding", "measure"]

MEASURES = spread.MEASURES | directions.MEASURES | neighbours.MEASURES | topology.MEASURES | labels.MEASURES


def measure(
    cloud: Cloud, slugs: Collection[str] = tuple(CATALOG), began: Callable[[str], None] = lambda _: None
) -> dict[str, Finding]:
    """Return what was found, by slug, in the order of the catalogue.

    Args:
        cloud: the points.
        slugs: of the measures to take; all if not given.
        began: told the slug of each measure when its turn comes.

    Raises:
        KeyError: the catalogue has no measure of that slug.

    """
    found = {}
    for slug in (slug for slug in CATALOG if slug in slugs):
        began(slug)
        found[slug] = MEASURES[slug](cloud)
    return found
