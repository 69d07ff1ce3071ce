"""Measures of the mean, of directions, and of dimensions that stand out."""

from functools import partial

from isotropy.catalog import sources
from isotropy.catalog.measure import Measure, between

# What each rule flags; averages, deviations and medians are over dimensions. The rules disagree. The first three miss
# outliers that inflate their own scale: with d dimensions no z-score exceeds sqrt(d - 1), so 3 is out of reach for d <
# 11. The last two are robust.
OUTLIER_RULES = {
    "mean_3sd": "mean over 3 standard deviations from the average mean (after Kovaleva et al. 2021)",
    "std_3sd": "std over 3 standard deviations above the average std (after Kovaleva et al. 2021)",
    "variance_5x": "variance at least 5 times the average variance (Rudman et al. 2023)",
    "mean_mad": "mean with a robust z-score beyond 3.5 on either side (Iglewicz & Hoaglin 1993)",
    "std_mad": "std with a robust z-score above 3.5 (Iglewicz & Hoaglin 1993)",
}


def cosine_bounds(n: int, d: int) -> tuple[float, float]:
    return -1 / max(n - 1, 1), 1


_measure = partial(Measure, group="directions")
MEASURES = (
    _measure(
        slug="mean_cosine",
        name="Mean cosine similarity",
        symbol="E[cos]",
        range="[−1/(n − 1), 1]",
        bounds=cosine_bounds,
        formula="(n ‖ū‖² − 1) / (n − 1), ū the mean of the unit rows",
        meaning="Average cosine of two different points. Near 1, all points lie in a narrow cone.",
        pitfall="Reflects the mean, not the covariance. A few rogue dimensions can dominate it.",
        citation=f"{sources.ETHAYARAJH_2019} On rogue dimensions: {sources.TIMKEY_2021}",
        higher_means="less isotropic",
        error="population",
        shown_in=("report", "layers", "lab", "training"),
    ),
    _measure(
        slug="mean_share",
        variant_of="mean_cosine",
        name="Share of the mean",
        symbol="‖μ‖²/E‖x‖²",
        range="[0, 1]",
        bounds=between(0, 1),
        formula="‖mean x‖² / mean ‖x‖²",
        meaning="Share of the energy in the common mean: 1 if all points are equal, 0 if they are centered.",
        pitfall="Long points count more. Read it with IsoScore, which ignores the mean.",
        citation=sources.MU_2018,
        higher_means="less isotropic",
        error="sample",
        bias="High by about (1 − value)/n.",
        shown_in=("layers", "lab"),
    ),
    _measure(
        slug="anisotropy_raw",
        name="k-th anisotropy, raw",
        symbol="A_k raw",
        value="k = 1",
        range="[0, 1]; k = 1 is at least 1/min(n, d)",
        bounds=between(0, 1),
        formula="σ_k² / Σ σ_i², σ the singular values of X",
        meaning="Share of the energy in the k-th strongest direction, mean included.",
        pitfall="With k = 1 the strongest direction is mostly the mean.",
        citation=sources.RAZZHIGAEV_2024,
        higher_means="less isotropic",
        error="sample",
        bias="High unless n is many times d.",
        shown_in=("lab figures", "training"),
        leading_values=3,
    ),
    _measure(
        slug="anisotropy_centred",
        variant_of="anisotropy_raw",
        name="k-th anisotropy, centered",
        symbol="A_k",
        value="k = 1",
        range="[0, 1]; k = 1 is at least 1/min(n − 1, d)",
        bounds=between(0, 1),
        formula="σ_k² / Σ σ_i², σ the singular values of X minus its mean",
        meaning="Share of the variance in the k-th principal component.",
        pitfall="Only one value of the spectrum. With few points the leading shares are too large.",
        citation=f"{sources.RAZZHIGAEV_2024} With k = 1 also: {sources.ETHAYARAJH_2019}",
        higher_means="less isotropic",
        error="sample",
        bias="High unless n is many times d.",
        shown_in=("layers", "lab figures", "training"),
        leading_values=3,
    ),
    _measure(
        slug="activation_profile",
        name="Activation profile",
        symbol="μ_i, s_i",
        value="number of outlier dimensions",
        is_count=True,
        range="[0, d]",
        bounds=lambda n, d: (0, d),
        formula=f"mean and standard deviation of each dimension; outliers: {'; '.join(OUTLIER_RULES.values())}",
        meaning="Dimensions with unusual means or variances.",
        pitfall=(
            "Rules disagree, and outliers inflate the scale most rules use. Noise is flagged too: in 16% to 98% of "
            "isotropic Gaussian clouds of 200 points in 3 to 768 dimensions."
        ),
        citation=f"{sources.KOVALEVA_2021} {sources.RUDMAN_2023} {sources.IGLEWICZ_1993}",
        higher_means="neither",
        shown_in=("lab figures",),
    ),
    _measure(
        slug="cosine_histogram",
        variant_of="mean_cosine",
        name="Histogram of cosines",
        symbol="cos(x_i, x_j)",
        value="mean of the pairs counted",
        range="[−1/(n − 1), 1]",
        bounds=cosine_bounds,
        formula="counts of x_i · x_j / (‖x_i‖ ‖x_j‖) over pairs i < j, raw and after subtracting the mean",
        meaning=(
            "The distribution behind the mean cosine. Centered on 0, directions are balanced. If centering moves the "
            "cosines to 0, they came from the mean."
        ),
        pitfall="In high dimensions cosines concentrate around their mean, whatever the covariance.",
        citation=sources.ETHAYARAJH_2019,
        higher_means="neither",
        shown_in=("lab figures",),
    ),
    _measure(
        slug="rogue_dimensions",
        variant_of="activation_profile",
        name="Rogue dimensions",
        symbol="max CC_i",
        value="greatest contribution",
        range="[−1/(d (n − 1)), 1]",
        bounds=lambda n, d: (-1 / (d * max(n - 1, 1)), 1),
        formula="max over i of CC_i = ((Σ u_i)² − Σ u_i²) / (n (n − 1)), u the unit rows",
        meaning="The largest contribution of one dimension to the mean cosine.",
        pitfall="Depends on the basis. Not a fraction of the mean cosine: contributions of both signs can cancel.",
        citation=sources.TIMKEY_2021,
        higher_means="less isotropic",
        shown_in=("lab figures",),
    ),
    _measure(
        slug="partition",
        name="Partition function",
        symbol="I(X)",
        range="(0, 1]",
        bounds=between(0, 1),
        formula="min Z(c) / max Z(c), Z(c) = Σ exp(c · x), c = ±v for every eigenvector v of XᵀX",
        meaning="1 if the sum of exp(c · x) is the same in every direction c. A common mean makes it small.",
        pitfall="Depends on scale: near 1 for short points, near 0 for long ones, whatever the shape.",
        citation=sources.MU_2018,
        higher_means="more isotropic",
    ),
    _measure(
        slug="partition_log",
        variant_of="partition",
        name="Partition function, logarithm",
        symbol="log I(X)",
        range="(−∞, 0]",
        formula="min log Z(c) − max log Z(c), Z(c) = Σ exp(c · x), c = ±v for every eigenvector v of XᵀX",
        meaning="Logarithm of the partition function's ratio, for ratios too small to represent. 0 is even.",
        pitfall="Depends on scale: the longer the points, the lower, whatever the shape.",
        citation=sources.MU_2018,
        higher_means="more isotropic",
        shown_in=("layers", "lab"),
    ),
    _measure(
        slug="uniformity",
        name="Uniformity",
        symbol="ℓ_uniform",
        range="[−8, 0]",
        bounds=between(-8, 0),
        formula="log of the mean of exp(−2 ‖u_i − u_j‖²) over pairs i < j, u the unit rows",
        meaning="How evenly directions cover the sphere: 0 if all are equal, near −4 if they are spread evenly.",
        pitfall="In high dimensions near −4 for any centered cloud, even a collapsed one (Fang et al.).",
        citation=f"{sources.WANG_2020} On its limits: {sources.FANG_2024}",
        higher_means="less isotropic",
        shown_in=("layers",),
    ),
)
