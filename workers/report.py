"""The measurements of a cloud, as rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

from app.db.models import Measurement, MeasurementStatus
from isotropy.activation import activation_profile
from isotropy.anisotropy import anisotropy, mean_share
from isotropy.cosine import CosineMoments, cosine_histogram
from isotropy.isoscore import isoscore_from_covariance, participation_ratio
from isotropy.score import Score
from isotropy.spectrum import eigenvalues, scaled_identity, shrink
from workers.cloud import Cloud

ZETA = 0.2
DIRECTIONS = 10
HISTOGRAM_ROWS = 2000


class Finding(NamedTuple):
    """A measure of one cloud."""

    score: Score
    n: int
    """Rows behind the score."""
    detail: dict[str, Any] | None = None
    """What is not a single number; nothing where the score is undefined."""


def measurements(embedding_id: str, cloud: Cloud) -> list[Measurement]:
    """Return a row for every measure of ``isotropy.catalog``."""
    found = {slug: measure(cloud) for slug, measure in MEASURES.items()}
    return [
        Measurement(
            embedding_id=embedding_id,
            measure=slug,
            status=MeasurementStatus.UNDEFINED if score.value is None else MeasurementStatus.OK,
            value=score.value,
            reason=score.reason,
            n=n,
            detail=None if score.value is None else detail,
        )
        for slug, (score, n, detail) in found.items()
    ]


def _isoscore(cloud: Cloud) -> Finding:
    return Finding(isoscore_from_covariance(cloud.moments.covariance()), cloud.n)


def _isoscore_star(cloud: Cloud) -> Finding:
    S = cloud.moments.covariance()
    score = isoscore_from_covariance(shrink(S, scaled_identity(S), ZETA))
    return Finding(score, cloud.n, {"zeta": ZETA, "source": "identity"})


def _participation_ratio(cloud: Cloud) -> Finding:
    return Finding(participation_ratio(cloud.moments.covariance()), cloud.n)


def _mean_cosine(cloud: Cloud) -> Finding:
    cosines = cloud.cosines
    return Finding(cosines.mean_cosine(), cosines.n, {"zero_rows": cosines.zero_rows})


def _mean_share(cloud: Cloud) -> Finding:
    return Finding(mean_share(cloud.moments), cloud.n)


def _anisotropy(*, centred: bool) -> Callable[[Cloud], Finding]:
    def measure(cloud: Cloud) -> Finding:
        scores = anisotropy(cloud.moments, min(DIRECTIONS, cloud.moments.d), centred=centred)
        return Finding(scores[0], cloud.n, {"values": [score.value for score in scores]})

    return measure


def _spectrum(cloud: Cloud) -> Finding:
    S = cloud.moments.covariance()
    if (reason := participation_ratio(S).reason) is not None:
        return Finding(Score.undefined(reason), cloud.n)
    values = eigenvalues(S).tolist()
    return Finding(Score(values[0]), cloud.n, {"eigenvalues": values})


def _activation_profile(cloud: Cloud) -> Finding:
    """Value: the number of dimensions that any rule calls an outlier."""
    if cloud.n < 2 or not cloud.moments.covariance().isfinite().all():
        reason = f"The profile needs at least 2 rows of values that can be squared; there are {cloud.n} rows."
        return Finding(Score.undefined(reason), cloud.n)
    profile = activation_profile(cloud.moments)
    rules = {
        dimension: [rule for rule, flags in profile.outliers.items() if flags[dimension]]
        for dimension in range(cloud.moments.d)
    }
    outliers = [{"dimension": dimension, "rules": which} for dimension, which in rules.items() if which]
    detail = {"mean": profile.mean.tolist(), "std": profile.std.tolist(), "outliers": outliers}
    return Finding(Score(len(outliers)), cloud.n, detail)


def _cosine_histogram(cloud: Cloud) -> Finding:
    """Value: the mean over the pairs that were counted."""
    # The sample is in random order, so its head is a sample too.
    rows = cloud.sample[cloud.sample.any(dim=1)][:HISTOGRAM_ROWS]
    cosines = CosineMoments(cloud.moments.d)
    cosines.update(rows)
    histogram = cosine_histogram(rows, max_rows=HISTOGRAM_ROWS)
    detail = {"edges": histogram.edges.tolist(), "counts": histogram.counts.tolist(), "rows": len(rows)}
    return Finding(cosines.mean_cosine(), len(rows), detail)


MEASURES: dict[str, Callable[[Cloud], Finding]] = {
    "isoscore": _isoscore,
    "isoscore_star": _isoscore_star,
    "participation_ratio": _participation_ratio,
    "mean_cosine": _mean_cosine,
    "mean_share": _mean_share,
    "anisotropy_raw": _anisotropy(centred=False),
    "anisotropy_centred": _anisotropy(centred=True),
    "spectrum": _spectrum,
    "activation_profile": _activation_profile,
    "cosine_histogram": _cosine_histogram,
}
