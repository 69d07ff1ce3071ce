"""Where the points of a cloud lie: their mean, their directions, and the dimensions that stand out."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isotropy.activation import activation_profile
from isotropy.cloud import Cloud
from isotropy.cosine import CosineMoments, cosine_histogram
from isotropy.report.finding import MeasureFunction, MeasureResult
from isotropy.report.spread import list_of_spectrum, of_moments
from isotropy.score import OUT_OF_RANGE, Score
from isotropy.uniformity import T

DIRECTIONS = 10
HISTOGRAM_ROWS = 2000


def _mean_cosine(cloud: Cloud) -> MeasureResult:
    scores = cloud.cosine_blocks.scores(lambda part: {"mean": part.mean_cosine()}, cloud.dealing.groups)
    return MeasureResult(scores["mean"], cloud.cosines.n, {"zero_rows": cloud.cosines.zero_rows})


def _rogue_dimensions(cloud: Cloud) -> MeasureResult:
    """With the contributions of all dimensions, and the greatest of them by dimension."""
    rogue = cloud.cosines.rogue_dimensions()
    contributions = rogue.contributions.tolist()
    greatest = rogue.contributions.argsort(descending=True)[:DIRECTIONS].tolist()
    dimensions = [{"dimension": i, "value": contributions[i]} for i in greatest]
    return MeasureResult(rogue.score, cloud.cosines.n, {"contributions": contributions, "dimensions": dimensions})


def _uniformity(cloud: Cloud) -> MeasureResult:
    return MeasureResult(cloud.pair_measures.uniformity, int(cloud.pairs.any(dim=1).sum()), {"t": T})


def _activation_profile(cloud: Cloud) -> MeasureResult:
    """Value: the number of dimensions that any rule calls an outlier."""
    profile = activation_profile(cloud.moments)
    rules = [[rule for rule, flags in profile.outliers.items() if flags[i]] for i in range(len(profile.mean))]
    outliers = [{"dimension": i, "rules": broken} for i, broken in enumerate(rules) if broken]
    mean, std = profile.mean * cloud.unit, profile.std * cloud.unit
    if not (mean.isfinite().all() and std.isfinite().all()):
        return MeasureResult(Score.undefined(OUT_OF_RANGE), cloud.n)
    return MeasureResult(profile.score, cloud.n, {"mean": mean.tolist(), "std": std.tolist(), "outliers": outliers})


def _cosine_histogram(cloud: Cloud) -> MeasureResult:
    """Value: the mean over the pairs that were counted; beside it the same rows less the mean of the cloud."""
    rows = cloud.pairs[cloud.pairs.any(dim=1)][:HISTOGRAM_ROWS]
    score = _mean_over_pairs(rows)
    if score.value is None:
        return MeasureResult(score, len(rows))
    histogram = cosine_histogram(rows)
    detail = {"edges": histogram.edges.tolist(), "counts": histogram.counts.tolist(), "rows": len(rows)}
    return MeasureResult(score, len(rows), detail | {"centred": _centred_cosines(rows - cloud.moments.mean)})


def _centred_cosines(rows: Tensor) -> dict[str, Any] | None:
    """Return the histogram of centered rows [m, d], less those that are the mean; None where no pair has a cosine."""
    rows = rows[rows.any(dim=1)]
    mean = _mean_over_pairs(rows).value
    if mean is None:
        return None
    return {"counts": cosine_histogram(rows).counts.tolist(), "mean": mean, "rows": len(rows)}


def _mean_over_pairs(rows: Tensor) -> Score:
    cosines = CosineMoments(rows.shape[1])
    cosines.update(rows)
    return cosines.mean_cosine()


MEASURES: dict[str, MeasureFunction] = {
    "mean_cosine": _mean_cosine,
    "rogue_dimensions": _rogue_dimensions,
    "mean_share": of_moments("mean_share"),
    "anisotropy_raw": list_of_spectrum("anisotropy_raw"),
    "anisotropy_centred": list_of_spectrum("anisotropy_centred"),
    "partition": lambda cloud: MeasureResult(cloud.partition.isotropy(), cloud.n),
    "partition_log": lambda cloud: MeasureResult(cloud.partition.log_isotropy(), cloud.n),
    "uniformity": _uniformity,
    "activation_profile": _activation_profile,
    "cosine_histogram": _cosine_histogram,
}
