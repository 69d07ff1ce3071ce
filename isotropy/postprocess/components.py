"""Principal components of a cloud: those that carry variance, and no others."""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.postprocess.fitted import require_fit_points
from isotropy.spectrum import CHUNK_ROWS, Moments, center


@dataclass(frozen=True, eq=False)
class Components:
    """The r principal components whose variance is above rounding; r is the rank."""

    mean: Tensor  # [d] float64
    variances: Tensor  # [r] float64, over n - 1, descending
    directions: Tensor  # [r, d] float64, orthonormal; the largest entry of each is positive, as in scikit-learn

    @property
    def rank(self) -> int:
        return len(self.variances)


def principal_components(points: Tensor) -> Components:
    """Return the principal components of points [n, d], n at least 1, in float64.

    They are computed from the covariance in O(n d^2 + d^3), or by SVD if 2 n <= d. Raises ValueError for points or
    variances that are not finite.
    """
    require_fit_points(points)
    n, d = points.shape
    if 2 * n <= d:
        mean, centered = center(points.double())
        _, singular_values, directions = torch.linalg.svd(centered, full_matrices=False)
        variances = singular_values.square() / max(n - 1, 1)
        dimension_variances = centered.square().sum(0) / max(n - 1, 1)
    else:
        moments = moments_of(points)
        mean, S = moments.mean, require_finite_variances(moments.covariance())
        dimension_variances = S.diagonal()
        ascending, vectors = torch.linalg.eigh(S)
        variances, directions = ascending.flip(0), vectors.T.flip(0)
    require_finite_variances(variances)
    solver_error = max(n, d) * torch.finfo(torch.float64).eps * variances[0]
    # If n < d, the rounding errors of d dimensions fall on only n directions.
    rounding = max(1, d / n) * torch.finfo(points.dtype).eps ** 2 * (mean.square() + dimension_variances)
    storage_error = directions.square() @ rounding
    significant = variances > torch.maximum(solver_error, storage_error)
    directions = directions[significant]
    largest = directions.abs().argmax(dim=1, keepdim=True)
    return Components(mean, variances[significant], directions * directions.gather(1, largest).sign())


def moments_of(points: Tensor) -> Moments:
    moments = Moments(points.shape[1], points.device)
    for start in range(0, len(points), CHUNK_ROWS):
        moments.update(points[start : start + CHUNK_ROWS].double())
    return moments


def require_finite_variances(variances: Tensor) -> Tensor:
    """Return the variances unchanged, or raise ValueError if they are not finite."""
    if not variances.isfinite().all():
        raise ValueError("Expected points whose squares fit float64, got larger ones: scale them down first.")
    return variances
