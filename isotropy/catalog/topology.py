"""Which points hang together: bars of persistent homology in dimension 0."""

from isotropy.catalog.measure import Measure

MEASURES: tuple[Measure, ...] = ()
