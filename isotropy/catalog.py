"""Every measure of this package: what it says, its formula and range, where it comes from, how it misleads.

Standard library only, so that a web process can show it without torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure, described in plain text. X is the cloud [n, d], S its covariance, λ the eigenvalues of S."""

    slug: str
    name: str
    symbol: str
    range: str
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]


_RUDMAN_2022 = (
    "Rudman, Gillman, Rayne & Eickhoff (2022). IsoScore: Measuring the Uniformity of Embedding Space "
    "Utilization. Findings of ACL 2022, 3325–3339."
)
_RUDMAN_2024 = "Rudman & Eickhoff (2024). Stable Anisotropic Regularization. ICLR 2024."
_ETHAYARAJH_2019 = (
    "Ethayarajh (2019). How Contextual are Contextualized Word Representations? Comparing the Geometry of "
    "BERT, ELMo, and GPT-2 Embeddings. EMNLP-IJCNLP 2019, 55–65."
)
_RAZZHIGAEV_2024 = (
    "Razzhigaev, Mikhalchuk, Goncharova, Oseledets, Dimitrov & Kuznetsov (2024). The Shape of Learning: "
    "Anisotropy and Intrinsic Dimensions in Transformer-Based Models. Findings of EACL 2024, 868–874."
)
_TIMKEY_2021 = (
    "Timkey & van Schijndel (2021). All Bark and No Bite: Rogue Dimensions in Transformer Language Models "
    "Obscure Representational Quality. EMNLP 2021, 4527–4546."
)
_MU_2018 = (
    "Mu & Viswanath (2018). All-but-the-Top: Simple and Effective Postprocessing for Word Representations. ICLR 2018."
)
_GAO_2017 = (
    "Gao, Trautmann, Yu, Santhanam, Ryu, Shenoy & Ganguli (2017). A theory of multineuronal dimensionality, "
    "dynamics and measurement. bioRxiv 214262."
)
_KOVALEVA_2021 = (
    "Kovaleva, Kulshreshtha, Rogers & Rumshisky (2021). BERT Busters: Outlier Dimensions that Disrupt "
    "Transformers. Findings of ACL-IJCNLP 2021, 3392–3405."
)
_RUDMAN_2023 = (
    "Rudman, Chen & Eickhoff (2023). Outlier Dimensions Encode Task Specific Knowledge. EMNLP 2023, 14596–14605."
)

_ALL = (
    Measure(
        slug="isoscore",
        name="IsoScore",
        symbol="IsoScore",
        range="[0, 1]",
        formula="((tr S)² / tr(S S) − 1) / (d − 1)",
        meaning="How evenly variance is spread over all directions: 0 is a line, 1 is the same in each.",
        pitfall="Biased low unless n is many times d; does not see the mean of the points.",
        citation=_RUDMAN_2022,
        higher_means="more isotropic",
    ),
    Measure(
        slug="isoscore_star",
        name="IsoScore*",
        symbol="IsoScore★",
        range="[0, 1]",
        formula="IsoScore of (1 − ζ) S_X + ζ S_S",
        meaning="IsoScore of few points, made stable by shrinking their covariance towards that of many.",
        pitfall="Depends on ζ and on S_S: compare only values that share both. At ζ = 0 it is IsoScore.",
        citation=_RUDMAN_2024,
        higher_means="more isotropic",
    ),
    Measure(
        slug="mean_cosine",
        name="Mean cosine similarity",
        symbol="E[cos]",
        range="[−1/(n − 1), 1]",
        formula="(n ‖ū‖² − 1) / (n − 1), ū the mean of the unit rows",
        meaning="Average cosine of two different points: near 1, all lie in a narrow cone.",
        pitfall="Measures the mean, not the covariance, and a few rogue dimensions can decide it.",
        citation=f"{_ETHAYARAJH_2019} On rogue dimensions: {_TIMKEY_2021}",
        higher_means="less isotropic",
    ),
    Measure(
        slug="anisotropy_raw",
        name="k-th anisotropy, raw",
        symbol="A_k raw",
        range="[0, 1]; k = 1 is at least 1/min(n, d)",
        formula="σ_k² / Σ σ_i², σ the singular values of X",
        meaning="Share of the k-th strongest direction in the energy of the points, their mean included.",
        pitfall="With k = 1 the strongest direction is mostly the mean.",
        citation=_RAZZHIGAEV_2024,
        higher_means="less isotropic",
    ),
    Measure(
        slug="anisotropy_centred",
        name="k-th anisotropy, centred",
        symbol="A_k",
        range="[0, 1]; k = 1 is at least 1/min(n − 1, d)",
        formula="σ_k² / Σ σ_i², σ the singular values of X minus its mean",
        meaning="Share of the k-th principal component in the variance of the points.",
        pitfall="One number of a whole spectrum; few points make the leading shares too large.",
        citation=f"{_RAZZHIGAEV_2024} With k = 1 also: {_ETHAYARAJH_2019}",
        higher_means="less isotropic",
    ),
    Measure(
        slug="mean_share",
        name="Share of the mean",
        symbol="‖μ‖²/E‖x‖²",
        range="[0, 1]",
        formula="‖mean x‖² / mean ‖x‖²",
        meaning="Part of the points' energy that they share: 1 if all are equal, 0 if they are centred.",
        pitfall="Long points count more; read it beside IsoScore, which sees only what this leaves out.",
        citation=_MU_2018,
        higher_means="less isotropic",
    ),
    Measure(
        slug="participation_ratio",
        name="Participation ratio",
        symbol="PR",
        range="[1, d]",
        formula="(tr S)² / tr(S S) = (Σ λ)² / Σ λ²",
        meaning="How many dimensions the variance effectively uses.",
        pitfall="Biased low unless n is many times d, as IsoScore, of which it is the unscaled form.",
        citation=_GAO_2017,
        higher_means="more isotropic",
    ),
    Measure(
        slug="spectrum",
        name="Spectrum",
        symbol="λ",
        range="[0, ∞) each, in squared units of the points",
        formula="eigenvalues of S, greatest first",
        meaning="Variance along each principal component; a flat line is isotropic.",
        pitfall="From few points the large eigenvalues come out too large and the small ones too small.",
        citation=_MU_2018,
        higher_means="neither",
    ),
    Measure(
        slug="activation_profile",
        name="Activation profile",
        symbol="μ_i, s_i",
        range="(−∞, ∞) for the mean, [0, ∞) for the standard deviation",
        formula="mean and standard deviation of each dimension, outliers flagged by a named rule",
        meaning="Which dimensions of the model's basis carry unusual means or variances.",
        pitfall="Outlier rules disagree, and outliers inflate the scale that most rules judge them by.",
        citation=f"{_KOVALEVA_2021} {_RUDMAN_2023}",
        higher_means="neither",
    ),
    Measure(
        slug="cosine_histogram",
        name="Histogram of cosines",
        symbol="cos(x_i, x_j)",
        range="[−1, 1]",
        formula="counts of x_i · x_j / (‖x_i‖ ‖x_j‖) over pairs i < j",
        meaning="The distribution that the mean cosine summarises; around 0 the directions are balanced.",
        pitfall="In many dimensions cosines crowd around their mean, whatever the covariance.",
        citation=_ETHAYARAJH_2019,
        higher_means="neither",
    ),
)

MEASURES = {measure.slug: measure for measure in _ALL}
"""Every measure by its slug, in the order in which to show them."""
