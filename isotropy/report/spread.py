"""How the variance of a cloud is spread over the directions."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from isotropy import rank
from isotropy.cloud import ZETA, Cloud
from isotropy.report.finding import Finding, Measuring, many
from isotropy.score import Score

TOP = 10


def of_moments(slug: str) -> Measuring:
    """The measure of that name among those that the moments give."""
    return lambda cloud: Finding(cloud.moment_scores[slug], cloud.n)


def _isoscore_star(cloud: Cloud) -> Finding:
    return Finding(cloud.moment_scores["isoscore_star"], cloud.n, {"zeta": ZETA, "source": "identity"})


def _of_spectrum(measure: Callable[[Tensor], Score]) -> Measuring:
    return lambda cloud: Finding(measure(cloud.eigenvalues), cloud.n)


def _explained_variance(cloud: Cloud) -> Finding:
    return many(rank.explained_variance(cloud.eigenvalues, min(TOP, cloud.d)), cloud.n)


def _rankme(cloud: Cloud) -> Finding:
    return Finding(rank.rankme(cloud.energies, cloud.n), cloud.n)


def _alpha_req(cloud: Cloud) -> Finding:
    return Finding(rank.alpha_req(cloud.eigenvalues), cloud.n, {"window": rank.ALPHA_WINDOW})


def _spectrum(cloud: Cloud) -> Finding:
    if (reason := cloud.moment_scores["participation_ratio"].reason) is not None:
        return Finding(Score.undefined(reason), cloud.n)
    values = cloud.eigenvalues.tolist()
    return Finding(Score(values[0]), cloud.n, {"eigenvalues": values})


MEASURES: dict[str, Measuring] = {
    "isoscore": of_moments("isoscore"),
    "isoscore_unbiased": of_moments("isoscore_unbiased"),
    "isoscore_star": _isoscore_star,
    "participation_ratio": of_moments("participation_ratio"),
    "effective_rank": _of_spectrum(lambda values: rank.effective_rank(values, "sigma")),
    "effective_rank_lambda": _of_spectrum(lambda values: rank.effective_rank(values, "lambda")),
    "rankme": _rankme,
    "stable_rank": _of_spectrum(rank.stable_rank),
    "alpha_req": _alpha_req,
    "explained_variance": _explained_variance,
    "spectrum": _spectrum,
}
