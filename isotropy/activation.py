"""Activation profile: mean and standard deviation of each dimension, and the dimensions that stand out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.score import Score, there_are
from isotropy.spectrum import Moments


@dataclass(frozen=True)
class ActivationProfile:
    """Mean and standard deviation by dimension, float64 [d], and outliers by rule, bool [d]; empty if undefined."""

    score: Score  # Number of dimensions flagged by any rule
    mean: Tensor
    std: Tensor
    outliers: dict[str, Tensor]  # A flag for each dimension under each rule of `isotropy.catalog.OUTLIER_RULES`


def activation_profile(moments: Moments) -> ActivationProfile:
    """Return mean, standard deviation and outlier flags by dimension, in the units of the points.

    Undefined for fewer than two points, and for NaN or infinity.
    """
    reason = None
    if moments.n < 2:
        reason = f"The activation profile needs at least 2 points; {there_are(moments.n)}."
    elif not moments.covariance().isfinite().all():
        reason = "The activation profile is not finite: some points are NaN, infinite or too large."
    if reason is not None:
        return ActivationProfile(Score.undefined(reason), moments.mean[:0], moments.mean[:0], {})
    mean = moments.mean
    variance = moments.covariance().diagonal()
    std = variance.sqrt()
    # Minimum distance of an outlier: after whitening, dimensions differ by rounding only, and none must be flagged.
    rounding = 1e-6 * (mean.square() + variance).mean().sqrt()
    # Distances from the median at which the robust z-score, 0.6745 distance / MAD, is 3.5.
    mean_limit, std_limit = (3.5 / 0.6745 * (x - x.quantile(0.5)).abs().quantile(0.5) for x in (mean, std))
    outliers = {
        "mean_3sd": (mean - mean.mean()).abs() > torch.maximum(3 * mean.std(correction=0), rounding),
        "std_3sd": std - std.mean() > torch.maximum(3 * std.std(correction=0), rounding),
        "variance_5x": (variance >= 5 * variance.mean()) & (variance > 0),
        "mean_mad": (mean - mean.quantile(0.5)).abs() > torch.maximum(mean_limit, rounding),
        "std_mad": std - std.quantile(0.5) > torch.maximum(std_limit, rounding),
    }
    flagged = torch.stack(list(outliers.values())).any(dim=0)
    return ActivationProfile(Score(float(flagged.sum())), mean, std, outliers)
