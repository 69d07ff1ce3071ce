"""Centering, and standardization of each dimension."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from isotropy.postprocess.components import finite, moments_of
from isotropy.postprocess.fitted import Fitted, require_to_fit


@dataclass(frozen=True, eq=False)
class Scaling(Fitted):
    """(x - mean) * scale."""

    SHAPES: ClassVar = {"mean": "d", "scale": "d"}

    scale: Tensor
    """[d] float64."""

    def _map(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.scale


def fit_centring(points: Tensor) -> Scaling:
    """Fit x - mean on points [n, d].

    Raises:
        ValueError: ``points`` is no finite cloud with a row.

    """
    require_to_fit(points)
    mean = moments_of(points).mean
    return Scaling(mean, torch.ones_like(mean))


def fit_standardisation(points: Tensor) -> Scaling:
    """Fit (x - mean) / std of each dimension on points [n, d] (Timkey & van Schijndel 2021).

    std is over n, as in scikit-learn's StandardScaler. A dimension whose spread is within rounding of the points'
    dtype is constant, and maps to 0.

    Raises:
        ValueError: ``points`` is no finite cloud with a row, or its variances leave float64.

    """
    require_to_fit(points)
    n = len(points)
    moments = moments_of(points)
    variances = finite(moments.covariance().diagonal()) * ((n - 1) / n)
    varies = variances > torch.finfo(points.dtype).eps ** 2 * (moments.mean.square() + variances)
    return Scaling(moments.mean, torch.where(varies, variances.rsqrt(), 0))
