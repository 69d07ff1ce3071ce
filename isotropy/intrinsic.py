"""Intrinsic dimension from the distances of nearest neighbors: TwoNN, and Levina and Bickel's maximum likelihood.

Search distinct points (``isotropy.neighbors.distinct_rows``), as scikit-dimension 0.5 does. Standard errors treat
points as independent; for 1,000 uniform points in 2 to 10 dimensions the true spread was 1.1 to 1.4 times as large.
Fewer than ``FEWEST_FOR_SE`` points have no standard error. Estimates are undefined where most neighbors are equally far
up to rounding, as in lattices or one-hot features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.neighbors import NearestNeighbors
from isotropy.score import FEWEST_FOR_SE, Score, there_are

# sqrt(N) times the 95th percentile of `TwoNNFit.distance` if the model holds. It was 1.09 to 1.12 in simulations of 50
# to 20,000 independent ratios, a tenth of them discarded.
CHANCE_DISTANCE = 1.1
FIGURE_POINTS = 400  # Maximum points of a fit in a figure
NO_RATIO = "is undefined: most points are as far from their second neighbor as from their first, within rounding."


@dataclass(frozen=True)
class TwoNNFit:
    """The line -ln(1 - F(mu)) = dimension * ln(mu) through the origin, F the empirical distribution of mu."""

    dimension: Score
    log_mu: Tensor  # [at most `FIGURE_POINTS`] float64 ascending, evenly spaced among the ranks of the points fitted
    minus_log_survival: Tensor  # -ln(1 - F) of these, float64
    # The largest difference between F and the fit's distribution over all points fitted, in [0, 1] (Kolmogorov and
    # Smirnov). Not R^2: through the origin and of sorted numbers it is near 1 whatever the fit.
    distance: float | None = None
    # About the 95th percentile of that distance if the model holds; approximate, because rows share distances.
    chance_distance: float | None = None


def twonn(neighbors: NearestNeighbors, discard: float = 0.1) -> TwoNNFit:
    """Return the intrinsic dimension, in (0, inf), by the linear fit of TwoNN (Facco et al. 2017).

    The int(N (1 - discard)) smallest ratios of second to first neighbor distance are fitted with F = i / N, as in
    scikit-dimension 0.5. The standard error is that of the model, to first order. Raises ValueError for fewer than two
    neighbors or ``discard`` outside (0, 1).
    """
    if not 0 < discard < 1:
        raise ValueError(f"Expected a fraction to discard between 0 and 1, got {discard}: 0.1 is the usual one.")
    log_mu, error = _log_mu(neighbors)
    N = len(log_mu)
    n_fitted = min(int(N * (1 - discard)), N - 1)
    if n_fitted < 2:
        reason = f"TwoNN needs at least 2 points to fit; it kept {max(n_fitted, 0)} of {N} without a duplicate."
        return TwoNNFit(Score.undefined(reason), log_mu[:0], log_mu[:0])
    x = log_mu.sort().values[:n_fitted]
    y = -torch.log1p(-torch.arange(1, n_fitted + 1, dtype=torch.float64, device=x.device) / N)
    figure_points = (
        torch.linspace(0, n_fitted - 1, min(n_fitted, FIGURE_POINTS), dtype=torch.float64).round().long().to(x.device)
    )
    if _are_mostly_zero(log_mu, error):
        return TwoNNFit(Score.undefined(f"TwoNN {NO_RATIO}"), x[figure_points], y[figure_points])
    dimension = float(x @ y / (x @ x))
    # Renyi: the i-th smallest of N exponentials is a sum of i independent ones, the l-th of mean 1 / (N - l + 1).
    tails = y.flip(0).cumsum(0).flip(0) / torch.arange(N, N - n_fitted, -1, dtype=torch.float64, device=x.device)
    se = dimension * float(tails.norm() / (y @ y))
    fitted_F = -torch.expm1(-dimension * x)
    F = torch.arange(n_fitted + 1, dtype=torch.float64, device=x.device) / N  # before and after each step
    distance = float(torch.maximum(fitted_F - F[:-1], F[1:] - fitted_F).max())
    score = Score(dimension, se=se if N >= FEWEST_FOR_SE else None)
    return TwoNNFit(score, x[figure_points], y[figure_points], distance, CHANCE_DISTANCE / N**0.5)


def twonn_mle(neighbors: NearestNeighbors) -> Score:
    """Return the intrinsic dimension, in (0, inf), as (N - 1) / sum ln(mu) of TwoNN's ratios (Denti et al. 2022).

    This is the maximum likelihood estimate, N / sum ln(mu), without its bias; ``method="mle"`` of scikit-dimension 0.5
    without discarding. The standard error is dimension / sqrt(N - 2). Raises ValueError for fewer than two neighbors.
    """
    log_mu, error = _log_mu(neighbors)
    N = len(log_mu)
    if N < 3:
        return Score.undefined(f"TwoNN's likelihood needs at least 3 points without a duplicate; {there_are(N)}.")
    if _are_mostly_zero(log_mu, error):
        return Score.undefined(f"TwoNN's likelihood {NO_RATIO}")
    dimension = (N - 1) / float(log_mu.sum())
    return Score(dimension, se=dimension / (N - 2) ** 0.5 if N >= FEWEST_FOR_SE else None)


def levina_bickel(neighbors: NearestNeighbors, k: int = 10) -> Score:
    """Return the intrinsic dimension, in (0, inf), by maximum likelihood from k neighbors (Levina & Bickel 2004).

    Inverse estimates sum_{j < k} ln(T_k / T_j) / (k - 1) are averaged (MacKay & Ghahramani 2005), as by
    ``skdim.id.MLE`` with ``comb="mle"`` and ``unbiased=False``; their spread gives the standard error. Raises
    ValueError for fewer than k neighbors or k < 2.
    """
    if k < 2:
        raise ValueError(f"Expected at least 2 neighbors, got k = {k}: one neighbor has no ratio.")
    if len(neighbors.distances) <= k:
        return Score.undefined(
            f"Levina and Bickel's estimate with k = {k} needs more than {k} distinct points; "
            f"{there_are(len(neighbors.distances))}."
        )
    neighbors = neighbors.take_nearest(k)
    distinct = neighbors.distances[:, 0] > 0
    distances = neighbors.distances[distinct]
    N = len(distances)
    if N < 2:
        return Score.undefined(
            f"Levina and Bickel's estimate needs at least 2 points without a duplicate; {there_are(N)}."
        )
    inverses = (distances[:, -1:] / distances).log().sum(1) / (k - 1)
    if _are_mostly_zero(inverses, _log_ratio_error(neighbors)[distinct]):
        return Score.undefined(
            f"Levina and Bickel's estimate is undefined: for most points the {k} nearest neighbors are equally far, "
            "within rounding."
        )
    mean = float(inverses.mean())
    return Score(1 / mean, se=float(inverses.std()) / N**0.5 / mean**2 if N >= FEWEST_FOR_SE else None)


def _log_mu(neighbors: NearestNeighbors) -> tuple[Tensor, Tensor]:
    """Return ln(mu) [N] of points without a duplicate, and its rounding error; zeros for one or two points."""
    if len(neighbors.distances) < 3:
        zeros = neighbors.distances.new_zeros(len(neighbors.distances))
        return zeros, zeros
    first, second = neighbors.take_nearest(2).distances.unbind(1)
    distinct = first > 0
    return (second[distinct] / first[distinct]).log(), _log_ratio_error(neighbors)[distinct]


def _log_ratio_error(neighbors: NearestNeighbors) -> Tensor:
    """Return the rounding error [n] of the log ratio to the first neighbor's distance."""
    return neighbors.distance_error(neighbors.roundoff)[:, 0] / neighbors.distances[:, 0]


def _are_mostly_zero(log_ratios: Tensor, error: Tensor) -> bool:
    """Return whether most log ratios [N] are 0 within their rounding error [N]."""
    return float((log_ratios <= error).double().mean()) > 0.5
