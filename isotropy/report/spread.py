"""How the variance of a cloud is spread over the directions."""

from __future__ import annotations

from isotropy import rank
from isotropy.cloud import ZETA, Cloud
from isotropy.report.finding import MeasureFunction, MeasureResult, from_scores
from isotropy.score import Score


def of_moments(slug: str) -> MeasureFunction:
    """The measure of that name among those that the moments give."""
    return lambda cloud: MeasureResult(cloud.moment_scores[slug], cloud.n)


def _isoscore_star(cloud: Cloud) -> MeasureResult:
    return MeasureResult(cloud.moment_scores["isoscore_star"], cloud.n, {"zeta": ZETA, "source": "identity"})


def of_spectrum(slug: str) -> MeasureFunction:
    """The measure of that name among those that the eigenvalues give."""
    return lambda cloud: MeasureResult(cloud.spectrum_scores[slug], cloud.n)


def list_of_spectrum(slug: str) -> MeasureFunction:
    """The list of that name among those that the eigenvalues give, in its order."""
    return lambda cloud: from_scores(
        [score for name, score in cloud.spectrum_scores.items() if name.startswith(f"{slug} ")], cloud.n
    )


def _alpha_req(cloud: Cloud) -> MeasureResult:
    return MeasureResult(cloud.spectrum_scores["alpha_req"], cloud.n, {"window": rank.ALPHA_WINDOW})


def _spectrum(cloud: Cloud) -> MeasureResult:
    if (reason := cloud.moment_scores["participation_ratio"].reason) is not None:
        return MeasureResult(Score.undefined(reason), cloud.n)
    values = (cloud.eigenvalues * cloud.unit * cloud.unit).tolist()
    return MeasureResult(cloud.spectrum_scores["spectrum"], cloud.n, {"eigenvalues": values})


MEASURES: dict[str, MeasureFunction] = {
    "isoscore_unbiased": of_moments("isoscore_unbiased"),
    "isoscore": of_moments("isoscore"),
    "isoscore_star": _isoscore_star,
    "participation_ratio_unbiased": of_moments("participation_ratio_unbiased"),
    "participation_ratio": of_moments("participation_ratio"),
    "effective_rank": of_spectrum("effective_rank"),
    "effective_rank_lambda": of_spectrum("effective_rank_lambda"),
    "rankme": of_spectrum("rankme"),
    "stable_rank": of_spectrum("stable_rank"),
    "alpha_req": _alpha_req,
    "explained_variance": list_of_spectrum("explained_variance"),
    "spectrum": _spectrum,
}
