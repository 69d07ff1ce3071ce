"""How the labelled classes lie."""

from isotropy.catalog.measure import Measure

MEASURES: tuple[Measure, ...] = ()
