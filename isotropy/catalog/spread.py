"""How the variance is spread over the directions."""

from isotropy.catalog.measure import Measure
from isotropy.catalog.sources import GAO_2017, MU_2018, RUDMAN_2022, RUDMAN_2024

MEASURES = (
    Measure(
        slug="isoscore",
        group="spread",
        name="IsoScore",
        symbol="IsoScore",
        range="[0, 1]",
        formula="((tr S)² / tr(S S) − 1) / (d − 1)",
        meaning="How evenly variance is spread over all directions: 0 is a line, 1 is the same in each.",
        pitfall="Biased low unless n is many times d; does not see the mean of the points.",
        citation=RUDMAN_2022,
        higher_means="more isotropic",
    ),
    Measure(
        slug="isoscore_star",
        group="spread",
        name="IsoScore*",
        symbol="IsoScore★",
        range="[0, 1]",
        formula="IsoScore of (1 − ζ) S_X + ζ S_S",
        meaning="IsoScore of few points, made stable by shrinking their covariance towards that of many.",
        pitfall="Depends on ζ and on S_S: compare only values that share both. At ζ = 0 it is IsoScore.",
        citation=RUDMAN_2024,
        higher_means="more isotropic",
    ),
    Measure(
        slug="participation_ratio",
        group="spread",
        name="Participation ratio",
        symbol="PR",
        range="[1, d]",
        formula="(tr S)² / tr(S S) = (Σ λ)² / Σ λ²",
        meaning="How many dimensions the variance effectively uses.",
        pitfall="Biased low unless n is many times d, as IsoScore, of which it is the unscaled form.",
        citation=GAO_2017,
        higher_means="more isotropic",
    ),
    Measure(
        slug="spectrum",
        group="spread",
        name="Spectrum",
        symbol="λ",
        range="[0, ∞) each, in squared units of the points",
        formula="eigenvalues of S, greatest first",
        meaning="Variance along each principal component; a flat line is isotropic.",
        pitfall="From few points the large eigenvalues come out too large and the small ones too small.",
        citation=MU_2018,
        higher_means="neither",
    ),
)
