"""Centering, standardization, and whitening: PCA, ZCA, partial and soft ZCA.

Points that a whitening was fitted on have covariance I and IsoScore 1 by construction. Judge whitening by other rows
(``postprocess.held_out``).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from isotropy.postprocess.components import Components, moments_of, principal_components, require_finite_variances
from isotropy.postprocess.fitted import FittedMap, require_fit_points


@dataclass(frozen=True, eq=False)
class Scaling(FittedMap):
    """The map of x to (x - mean) * scale."""

    SHAPES: ClassVar = {"mean": "d", "scale": "d"}

    scale: Tensor  # [d] float64

    def _map(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.scale


def fit_centering(points: Tensor) -> Scaling:
    """Fit x - mean on finite points [n, d], n at least 1."""
    require_fit_points(points)
    mean = moments_of(points).mean
    return Scaling(mean, torch.ones_like(mean))


def fit_standardisation(points: Tensor) -> Scaling:
    """Fit (x - mean) / std of each dimension on points [n, d], std over n (Timkey & van Schijndel 2021).

    Dimensions whose spread is within rounding map to 0. Raises ValueError for points or variances that are not finite.
    """
    require_fit_points(points)
    n = len(points)
    moments = moments_of(points)
    variances = require_finite_variances(moments.covariance().diagonal()) * ((n - 1) / n)
    varies = variances > torch.finfo(points.dtype).eps ** 2 * (moments.mean.square() + variances)
    return Scaling(moments.mean, torch.where(varies, variances.rsqrt(), 0))


@dataclass(frozen=True, eq=False)
class Whitening(FittedMap):
    """The map of x to (x - mean) W."""

    SHAPES: ClassVar = {"mean": "d", "matrix": "d d"}

    matrix: Tensor  # W [d, d] float64

    def _map(self, x: Tensor) -> Tensor:
        return (x - self.mean) @ self.matrix


def fit_pca_whitening(points: Tensor, components: Components | None = None) -> Whitening:
    """Fit W = U L^(-1/2) on points [n, d], as scikit-learn's PCA(whiten=True), with variances over n - 1.

    With r < d directions of variance the last d - r dimensions are 0 and IsoScore in-sample is (r - 1) / (d - 1).
    Raises ValueError for points or variances that are not finite.
    """
    components = components or principal_components(points)
    matrix = torch.zeros_like(components.mean).diag()
    matrix[:, : components.rank] = components.directions.T * components.variances.rsqrt()
    return Whitening(components.mean, matrix)


def fit_zca_whitening(points: Tensor, components: Components | None = None) -> Whitening:
    """Fit W = U L^(-1/2) U^T on points [n, d], the whitening that moves points least (Kessy, Lewin & Strimmer 2018).

    The covariance over n - 1 becomes I; directions without variance map to 0. Errors as in ``fit_pca_whitening``.
    """
    return fit_partial_whitening(points, 1, components)


def fit_partial_whitening(points: Tensor, gamma: float = 0.5, components: Components | None = None) -> Whitening:
    """Fit W = U L^(-gamma/2) U^T on points [n, d]: each variance becomes its power 1 - gamma (Artetxe et al. 2018).

    gamma = 0 centers, 1 whitens; directions without variance map to 0. Raises ValueError for a gamma outside [0, 1];
    other errors as in ``fit_pca_whitening``.
    """
    if not 0 <= gamma <= 1:
        raise ValueError(f"Expected gamma from 0 to 1, got {gamma}: 0 only centers, 1 whitens fully.")
    components = components or principal_components(points)
    directions = components.directions
    return Whitening(components.mean, directions.T * components.variances.pow(-gamma / 2) @ directions)


def fit_soft_zca(points: Tensor, eps: float = 0.1, components: Components | None = None) -> Whitening:
    """Fit W = U (L + eps I)^(-1/2) U^T on points [n, d] (Diera, Galke & Scherp 2024).

    eps is in squared units of the points; directions without variance are multiplied by eps^(-1/2). eps = 0 is
    ``fit_zca_whitening``. Raises ValueError unless eps is finite and at least 0; other errors as there.
    """
    if not 0 <= eps < math.inf:
        raise ValueError(f"Expected eps of at least 0, finite, got {eps}: 0 whitens fully, more whitens less.")
    if eps == 0:
        return fit_zca_whitening(points, components)
    components = components or principal_components(points)
    # W is ``null_factor`` times I plus a matrix that is 0 in directions without variance.
    null_factor, directions = eps**-0.5, components.directions
    excess = directions.T * ((components.variances + eps).rsqrt() - null_factor) @ directions
    return Whitening(components.mean, excess + null_factor * torch.eye(len(excess)).to(excess))
