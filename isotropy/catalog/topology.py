"""Measures of persistent homology in dimension 0: at which distances points connect."""

from functools import partial
from math import log

from isotropy.catalog.measure import Measure, between
from isotropy.catalog.sources import ATIENZA_2019, EDELSBRUNNER_2002, KUDRIASHOV_2025

_measure = partial(Measure, group="topology")
MEASURES = (
    _measure(
        slug="barcode",
        name="Barcode",
        symbol="ℓ",
        value="longest bar",
        range="[0, ∞), in units of the points",
        formula="lengths of the n − 1 edges of the minimum spanning tree: Vietoris–Rips bars in dimension 0",
        meaning="Distances at which groups of points join. At the longest bar, all points are connected.",
        pitfall="Bars shrink as n grows: compare clouds of equal size. One outlier makes the longest bar.",
        citation=EDELSBRUNNER_2002,
        higher_means="neither",
    ),
    _measure(
        slug="persistent_entropy",
        variant_of="barcode",
        name="Persistent entropy",
        symbol="H",
        range="[0, log(n − 1)], in nats",
        bounds=lambda n, d: (0, log(max(n - 1, 1))),
        formula="−Σ p log p, p = ℓ / Σ ℓ over the n − 1 bars of the barcode",
        meaning="How even the bars are: largest if all are equal, small if a few long bars join tight groups.",
        pitfall="Grows with n, and is near its maximum in high dimensions, or for points evenly spaced on a line.",
        citation=f"{ATIENZA_2019} As a penalty: {KUDRIASHOV_2025}",
        higher_means="neither",
        shown_in=("results",),
    ),
    _measure(
        slug="persistent_entropy_normalised",
        variant_of="barcode",
        name="Persistent entropy, normalized",
        symbol="H / log m",
        range="[0, 1]",
        bounds=between(0, 1),
        formula="−Σ p log p / log m, p = ℓ / Σ ℓ over the m = n − 1 bars of the barcode",
        meaning="Persistent entropy relative to equal bars, for clouds of different size: 1 if all bars are equal.",
        pitfall="Near 1 in high dimensions and for points evenly spaced on a line. The bars still depend on n.",
        citation=f"{ATIENZA_2019} As a penalty: {KUDRIASHOV_2025}",
        higher_means="neither",
    ),
    _measure(
        slug="prominent_bars",
        variant_of="barcode",
        name="Prominent bars",
        symbol="#ℓ",
        is_count=True,
        range="1 to max(n − 2, 1)",
        bounds=lambda n, d: (1, max(n - 2, 1)),
        formula="longest bars whose replacement by neutral lengths does not lower the share of the longest",
        meaning="Number of long bars by Atienza's rule. Compare with a Gaussian of the same size, given next to it.",
        pitfall="Not a count of groups. In high dimensions one Gaussian has dozens to hundreds.",
        citation=f"{ATIENZA_2019} {KUDRIASHOV_2025}",
        higher_means="neither",
        count_details=("gaussian_of_the_same_size",),
    ),
)
