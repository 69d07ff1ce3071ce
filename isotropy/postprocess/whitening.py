"""Centering, standardization of each dimension, and whitening: PCA, ZCA and soft ZCA.

Whitening gives the points it was fitted on covariance I, and so IsoScore 1, by construction and whatever they are. What
it does is said only by rows that were held out, the less well the fewer points there are for each dimension: see
``isotropy.postprocess.held_out``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from isotropy.postprocess.components import Components, finite, moments_of, principal_components
from isotropy.postprocess.fitted import Fitted, require_to_fit


@dataclass(frozen=True, eq=False)
class Scaling(Fitted):
    """(x - mean) * scale."""

    SHAPES: ClassVar = {"mean": "d", "scale": "d"}

    scale: Tensor  # [d] float64

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


@dataclass(frozen=True, eq=False)
class Whitening(Fitted):
    """(x - mean) W."""

    SHAPES: ClassVar = {"mean": "d", "matrix": "d d"}

    matrix: Tensor  # W [d, d] float64

    def _map(self, x: Tensor) -> Tensor:
        return (x - self.mean) @ self.matrix


def fit_pca_whitening(points: Tensor, components: Components | None = None) -> Whitening:
    """Fit the principal components of points [n, d], greatest first, each scaled to variance 1 (over n - 1).

    W = U L^(-1/2), as scikit-learn's PCA(whiten=True). With r directions of variance, r below d where n <= d, what
    lies off them is dropped and the last d - r dimensions are 0: then IsoScore in-sample is (r - 1) / (d - 1).

    Raises:
        ValueError: ``points`` is no finite cloud with a row, or its variances leave float64.

    """
    components = components or principal_components(points)
    matrix = torch.zeros_like(components.mean).diag()
    matrix[:, : components.rank] = components.directions.T * components.variances.rsqrt()
    return Whitening(components.mean, matrix)


def fit_zca_whitening(points: Tensor, components: Components | None = None) -> Whitening:
    """Fit W = U L^(-1/2) U^T on points [n, d]: of all whitenings the one that moves the points least.

    (Bell & Sejnowski 1997; Kessy, Lewin & Strimmer 2018.) The covariance over n - 1 becomes I; directions without
    variance map to 0, as in ``fit_pca_whitening``.

    Raises:
        ValueError: ``points`` is no finite cloud with a row, or its variances leave float64.

    """
    components = components or principal_components(points)
    return Whitening(components.mean, _within_directions(components, components.variances.rsqrt()))


def fit_soft_zca(points: Tensor, eps: float = 0.1, components: Components | None = None) -> Whitening:
    """Fit W = U (L + eps I)^(-1/2) U^T on points [n, d] (Diera, Galke & Scherp 2024).

    As in the paper, eps is in squared units of the points and counts in every direction: one without variance is
    multiplied by eps^(-1/2), the greatest factor there is. With eps = 0 this is ``fit_zca_whitening``, which drops it.

    Raises:
        ValueError: eps is negative or not finite; ``points`` is no finite cloud with a row, or its variances leave
            float64.

    """
    if not 0 <= eps < math.inf:
        raise ValueError(f"Expected eps of at least 0, finite, got {eps}: 0 whitens fully, more whitens less.")
    if eps == 0:
        return fit_zca_whitening(points, components)
    components = components or principal_components(points)
    off = eps**-0.5
    within = _within_directions(components, (components.variances + eps).rsqrt() - off)
    return Whitening(components.mean, within + off * torch.eye(len(within)).to(within))


def _within_directions(components: Components, factors: Tensor) -> Tensor:
    """U diag(factors) U^T [d, d]."""
    return components.directions.T * factors @ components.directions
