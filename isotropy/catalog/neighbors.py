"""Measures of nearest neighbors."""

from functools import partial

from isotropy.catalog import sources
from isotropy.catalog.measure import Measure

_measure = partial(Measure, group="neighbors")
MEASURES = (
    _measure(
        slug="twonn",
        name="Intrinsic dimension, TwoNN",
        symbol="ID",
        range="(0, ∞)",
        formula="slope through 0 of −ln(1 − F(μ)) on ln μ, μ = r₂/r₁, the greatest tenth of the μ discarded",
        meaning="Dimensions needed locally, even on a curved surface. Duplicates are ignored.",
        pitfall="Too low for high dimensions with few points. SE assumes the model fits: if the fit distance is above "
        "its chance value, rely on the range of the estimators.",
        citation=sources.FACCO_2017,
        higher_means="neither",
        error="sample",
        bias="Low for few rows, especially in high dimensions.",
        shown_in=("report", "layers", "lab", "results"),
    ),
    _measure(
        slug="twonn_mle",
        variant_of="twonn",
        name="Intrinsic dimension, TwoNN by likelihood",
        symbol="ID (ML)",
        range="(0, ∞)",
        formula="(n − 1) / Σ ln μ, μ = r₂/r₁, nothing discarded",
        meaning="TwoNN by maximum likelihood on all distinct rows. More stable than the fitted line if the model fits.",
        pitfall="A few points with a distant second neighbor lower it. Compare it with the fitted line.",
        citation=f"{sources.DENTI_2022} The model: {sources.FACCO_2017}",
        higher_means="neither",
        error="sample",
        bias="Low for few rows, especially in high dimensions.",
        listed_with="twonn",
    ),
    _measure(
        slug="levina_bickel",
        variant_of="twonn",
        name="Intrinsic dimension, Levina–Bickel",
        symbol="ID (LB)",
        range="(0, ∞)",
        formula="1 / mean of Σ_j ln(T_k/T_j) / (k − 1), T_j a point's distance to its j-th neighbor, k = 10",
        meaning="Intrinsic dimension from the k nearest distinct rows. More stable than from two.",
        pitfall="Depends on k, and too low in high dimensions. A larger k is affected by curvature and edges.",
        citation=f"{sources.LEVINA_2004} The inverses averaged: {sources.MACKAY_2005}",
        higher_means="neither",
        error="sample",
        bias="Low for few rows, especially in high dimensions.",
        listed_with="twonn",
    ),
    _measure(
        slug="hubness",
        name="Hubness",
        symbol="skew N_k",
        value="skewness",
        range="(−∞, ∞)",
        formula="E[(N_k − k)³] / E[(N_k − k)²]^{3/2}, N_k how often a point is among another's k nearest, k = 10",
        meaning="Above 0, some rows are neighbors of very many others, and many rows of none.",
        pitfall="Grows with the intrinsic dimension and n: compare clouds of equal size and k. Undefined if distances "
        "tie, as for binary or one-hot rows.",
        citation=f"{sources.RADOVANOVIC_2010} The Robin Hood index beside it: {sources.FELDBAUER_2018}",
        higher_means="neither",
        count_details=("greatest",),
    ),
)
