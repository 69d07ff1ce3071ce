"""Where the points lie: their mean, their directions, and the dimensions that stand out."""

from isotropy.catalog.measure import Measure, between
from isotropy.catalog.sources import (
    ETHAYARAJH_2019,
    FANG_2024,
    IGLEWICZ_1993,
    KOVALEVA_2021,
    MU_2018,
    RAZZHIGAEV_2024,
    RUDMAN_2023,
    TIMKEY_2021,
    WANG_2020,
)

OUTLIER_RULES = {
    "mean_3sd": "mean over 3 standard deviations from the average mean (after Kovaleva et al. 2021)",
    "std_3sd": "std over 3 standard deviations above the average std (after Kovaleva et al. 2021)",
    "variance_5x": "variance at least 5 times the average variance (Rudman et al. 2023)",
    "mean_mad": "mean with a robust z-score beyond 3.5 on either side (Iglewicz & Hoaglin 1993)",
    "std_mad": "std with a robust z-score above 3.5 (Iglewicz & Hoaglin 1993)",
}
"""What each rule flags; averages, deviations and medians are over dimensions.

The rules disagree, and the first three hide outliers that inflate the very scale they are judged by: with d
dimensions no z-score exceeds sqrt(d - 1), so that 3 is out of reach below d = 11. Hence the robust ones.
"""


def cosines(n: int, d: int) -> tuple[float, float]:
    """Return the least and the greatest mean cosine that n points can have."""
    return -1 / max(n - 1, 1), 1


MEASURES = (
    Measure(
        slug="mean_cosine",
        group="directions",
        name="Mean cosine similarity",
        symbol="E[cos]",
        range="[−1/(n − 1), 1]",
        bounds=cosines,
        formula="(n ‖ū‖² − 1) / (n − 1), ū the mean of the unit rows",
        meaning="Average cosine of two different points: near 1, all lie in a narrow cone.",
        pitfall="Measures the mean, not the covariance, and a few rogue dimensions can decide it.",
        citation=f"{ETHAYARAJH_2019} On rogue dimensions: {TIMKEY_2021}",
        higher_means="less isotropic",
        error="population",
        compared="at any n",
    ),
    Measure(
        slug="mean_share",
        group="directions",
        name="Share of the mean",
        symbol="‖μ‖²/E‖x‖²",
        range="[0, 1]",
        bounds=between(0, 1),
        formula="‖mean x‖² / mean ‖x‖²",
        meaning="Part of the points' energy that they share: 1 if all are equal, 0 if they are centred.",
        pitfall="Long points count more; read it beside IsoScore, which sees only what this leaves out.",
        citation=MU_2018,
        higher_means="less isotropic",
        error="sample",
        bias="High by about (1 − value)/n.",
        compared="at equal n",
    ),
    Measure(
        slug="anisotropy_raw",
        group="directions",
        name="k-th anisotropy, raw",
        symbol="A_k raw",
        value="k = 1",
        range="[0, 1]; k = 1 is at least 1/min(n, d)",
        bounds=between(0, 1),
        formula="σ_k² / Σ σ_i², σ the singular values of X",
        meaning="Share of the k-th strongest direction in the energy of the points, their mean included.",
        pitfall="With k = 1 the strongest direction is mostly the mean.",
        citation=RAZZHIGAEV_2024,
        higher_means="less isotropic",
        error="sample",
        bias="High unless n is many times d.",
        compared="at equal n",
    ),
    Measure(
        slug="anisotropy_centred",
        group="directions",
        name="k-th anisotropy, centred",
        symbol="A_k",
        value="k = 1",
        range="[0, 1]; k = 1 is at least 1/min(n − 1, d)",
        bounds=between(0, 1),
        formula="σ_k² / Σ σ_i², σ the singular values of X minus its mean",
        meaning="Share of the k-th principal component in the variance of the points.",
        pitfall="One number of a whole spectrum; few points make the leading shares too large.",
        citation=f"{RAZZHIGAEV_2024} With k = 1 also: {ETHAYARAJH_2019}",
        higher_means="less isotropic",
        error="sample",
        bias="High unless n is many times d.",
        compared="at equal n",
    ),
    Measure(
        slug="activation_profile",
        group="directions",
        name="Activation profile",
        symbol="μ_i, s_i",
        value="number of outlier dimensions",
        whole=True,
        range="[0, d]",
        bounds=lambda n, d: (0, d),
        formula=f"mean and standard deviation of each dimension; outliers: {'; '.join(OUTLIER_RULES.values())}",
        meaning="Which dimensions of the model's basis carry unusual means or variances.",
        pitfall=(
            "Rules disagree, outliers inflate the scale that most judge them by, and noise is flagged too: something "
            "in 16 to 98 % of isotropic Gaussian clouds of 200 points in 3 to 768 dimensions."
        ),
        citation=f"{KOVALEVA_2021} {RUDMAN_2023} {IGLEWICZ_1993}",
        higher_means="neither",
    ),
    Measure(
        slug="cosine_histogram",
        group="directions",
        name="Histogram of cosines",
        symbol="cos(x_i, x_j)",
        value="mean of the pairs counted",
        range="[−1/(n − 1), 1]",
        bounds=cosines,
        formula="counts of x_i · x_j / (‖x_i‖ ‖x_j‖) over pairs i < j, of rows as they are and less the mean of all",
        meaning=(
            "The distribution that the mean cosine summarises; around 0 the directions are balanced. Cosines that "
            "centring moves to 0 told of the mean alone."
        ),
        pitfall="In many dimensions cosines crowd around their mean, whatever the covariance.",
        citation=ETHAYARAJH_2019,
        higher_means="neither",
    ),
    Measure(
        slug="rogue_dimensions",
        group="directions",
        name="Rogue dimensions",
        symbol="max CC_i",
        value="greatest contribution",
        range="[−1/(d (n − 1)), 1]",
        bounds=lambda n, d: (-1 / (d * max(n - 1, 1)), 1),
        formula="max over i of CC_i = ((Σ u_i)² − Σ u_i²) / (n (n − 1)), u the unit rows",
        meaning="The most that one dimension adds to the mean cosine, of which the contributions CC_i are the parts.",
        pitfall="Depends on the basis. Not a share of the mean cosine: contributions of both signs may add up to 0.",
        citation=TIMKEY_2021,
        higher_means="less isotropic",
    ),
    Measure(
        slug="partition",
        group="directions",
        name="Partition function",
        symbol="I(X)",
        range="(0, 1]",
        bounds=between(0, 1),
        formula="min Z(c) / max Z(c), Z(c) = Σ exp(c · x), c = ±v for every eigenvector v of XᵀX",
        meaning="1 if the sum of exp(c · x) is the same in every direction c; a common mean makes it small.",
        pitfall="Depends on scale: near 1 for short points, near 0 for long ones, whatever their shape.",
        citation=MU_2018,
        higher_means="more isotropic",
    ),
    Measure(
        slug="partition_log",
        group="directions",
        name="Partition function, logarithm",
        symbol="log I(X)",
        range="(−∞, 0]",
        formula="min log Z(c) − max log Z(c), Z(c) = Σ exp(c · x), c = ±v for every eigenvector v of XᵀX",
        meaning="The partition function's ratio where that is too small for a number, as for long points: 0 is even.",
        pitfall="Depends on scale: the longer the points, the farther below 0, whatever their shape.",
        citation=MU_2018,
        higher_means="more isotropic",
    ),
    Measure(
        slug="uniformity",
        group="directions",
        name="Uniformity",
        symbol="ℓ_uniform",
        range="[−8, 0]",
        bounds=between(-8, 0),
        formula="log of the mean of exp(−2 ‖u_i − u_j‖²) over pairs i < j, u the unit rows",
        meaning="How evenly the directions cover the sphere: 0 if all are the same, near −4 if they are spread evenly.",
        pitfall="In many dimensions near −4 for any centred cloud, even one that has lost most of them (Fang et al.).",
        citation=f"{WANG_2020} On its limits: {FANG_2024}",
        higher_means="less isotropic",
    ),
)
