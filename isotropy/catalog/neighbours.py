"""What the nearest neighbours say."""

from isotropy.catalog.measure import Measure
from isotropy.catalog.sources import (
    DENTI_2022,
    FACCO_2017,
    FELDBAUER_2018,
    LEVINA_2004,
    MACKAY_2005,
    RADOVANOVIC_2010,
)

MEASURES = (
    Measure(
        slug="twonn",
        group="neighbours",
        name="Intrinsic dimension, TwoNN",
        symbol="ID",
        range="(0, ∞)",
        formula="slope through 0 of −ln(1 − F(μ)) on ln μ, μ = r₂/r₁, the greatest tenth of the μ discarded",
        meaning="How many coordinates tell neighbouring points apart, on however curved a surface; of distinct rows.",
        pitfall="Too low where the dimension is high and points are few. ± holds only where the model fits: if the fit "
        "distance is above that by chance, trust the range of the estimators.",
        citation=FACCO_2017,
        higher_means="neither",
        error="sample",
        bias="Low for few rows, most of all where the dimension is high.",
        compared="at equal n",
    ),
    Measure(
        slug="twonn_mle",
        group="neighbours",
        name="Intrinsic dimension, TwoNN by likelihood",
        symbol="ID (ML)",
        range="(0, ∞)",
        formula="(n − 1) / Σ ln μ, μ = r₂/r₁, nothing discarded",
        meaning="TwoNN's dimension from all distinct rows: steadier than the fitted line where its model holds.",
        pitfall="A few points with a far second neighbour lower it: compare it with the fitted line.",
        citation=f"{DENTI_2022} The model: {FACCO_2017}",
        higher_means="neither",
        error="sample",
        bias="Low for few rows, most of all where the dimension is high.",
        compared="at equal n",
    ),
    Measure(
        slug="levina_bickel",
        group="neighbours",
        name="Intrinsic dimension, Levina–Bickel",
        symbol="ID (LB)",
        range="(0, ∞)",
        formula="1 / mean of Σ_j ln(T_k/T_j) / (k − 1), T_j a point's distance to its j-th neighbour, k = 10",
        meaning="Intrinsic dimension at the scale of the k nearest of the distinct rows, steadier than from two.",
        pitfall="Depends on k, and too low where the dimension is high: a greater k sees curvature and edges.",
        citation=f"{LEVINA_2004} The inverses averaged: {MACKAY_2005}",
        higher_means="neither",
        error="sample",
        bias="Low for few rows, most of all where the dimension is high.",
        compared="at equal n",
    ),
    Measure(
        slug="hubness",
        group="neighbours",
        name="Hubness",
        symbol="skew N_k",
        value="skewness",
        range="(−∞, ∞)",
        formula="E[(N_k − k)³] / E[(N_k − k)²]^{3/2}, N_k how often a point is among another's k nearest, k = 10",
        meaning="Above 0, some of the distinct rows are neighbours of very many others, and many of none.",
        pitfall="Grows with the intrinsic dimension and with n, so compare clouds of one size and one k; "
        "undefined where distances tie, as of binary and one-hot rows, since any order would make other hubs.",
        citation=f"{RADOVANOVIC_2010} The Robin Hood index beside it: {FELDBAUER_2018}",
        higher_means="neither",
    ),
)
