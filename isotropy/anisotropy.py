"""Anisotropy: the share of each leading direction in the energy of the points, and the share of the mean."""

import torch
from torch import Tensor

from isotropy.score import Score
from isotropy.spectrum import Moments


def anisotropy(values: Tensor, K: int, total: Tensor | None = None) -> tuple[Score, ...]:
    """Return sigma_k^2 / sum_i sigma_i^2 for k = 1 to K, each in [0, 1], from eigenvalues [d] in descending order.

    sigma_k^2 is proportional to the k-th eigenvalue: sigma are the singular values of the points, or of the centered
    points (Razzhigaev et al. 2024). The share for k = 1 is the maximum explainable variance (Ethayarajh 2019). Pass
    ``total``, the sum of all eigenvalues, if ``values`` are only the leading ones. Undefined if all values are zero
    and for NaN or infinity. Raises ValueError unless 1 <= K <= d.
    """
    if not 1 <= K <= len(values):
        raise ValueError(f"Expected 1 <= K <= d = {len(values)}, got {K}: there are d directions.")
    if (reason := explain_undefined(values)) is not None:
        return (Score.undefined(reason),) * K
    relative_values = values / values[0]
    relative_total = relative_values.sum() if total is None else total / values[0]
    return tuple(Score.clipped(share, 0, 1) for share in (relative_values / relative_total)[:K].tolist())


def mean_share(moments: Moments) -> Score:
    """Return ||mean||^2 / E||x||^2, the share of the energy in the mean, in [0, 1].

    Undefined where all points are zero, and for NaN or infinity.
    """
    # A product of two dimensions never exceeds both squares, so checking the diagonal is enough.
    squared_mean = moments.mean.square()
    energies = moments.scatter.diagonal() / max(moments.n, 1) + squared_mean
    if (reason := explain_undefined(energies)) is not None:
        return Score.undefined(reason)
    return Score.clipped(float(squared_mean.sum() / energies.sum()), 0, 1)


def second_moment(moments: Moments) -> Tensor:
    """Return E[x x^T], the mean over n of products about zero, float64 [d, d]."""
    population_covariance = moments.covariance() * ((moments.n - 1) / max(moments.n, 1))
    return population_covariance + torch.outer(moments.mean, moments.mean)


def explain_undefined(S: Tensor) -> str | None:
    """Return why moments or eigenvalues are undefined, in a sentence, or None if they are defined."""
    if not S.isfinite().all():
        return "The moments are not finite: some points are NaN, infinite or too large."
    if not S.any():
        return "The points have no energy: all are zero or, once centered, equal; or there are none."
    return None
