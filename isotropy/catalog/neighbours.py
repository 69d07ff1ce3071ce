"""What the nearest neighbours say."""

from isotropy.catalog.measure import Measure

MEASURES: tuple[Measure, ...] = ()
