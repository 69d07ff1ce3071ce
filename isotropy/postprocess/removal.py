"""All-but-the-Top, a softer form that removes a part of each component, and a form by cluster."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from isotropy.postprocess.components import Components, principal_components, require_finite_variances
from isotropy.postprocess.fitted import FittedMap, require_fit_points


@dataclass(frozen=True, eq=False)
class Removal(FittedMap):
    """The map of x to y - sum_i weight_i (u_i . y) u_i, where y = x - mean and u_i are the directions."""

    SHAPES: ClassVar = {"mean": "d", "directions": "D d", "weights": "D"}

    directions: Tensor  # [D, d] float64, orthonormal; D is lower than requested if the points have a lower rank
    weights: Tensor  # [D] float64 in [0, 1]: 1 removes a component, 0 leaves it

    def _map(self, x: Tensor) -> Tensor:
        y = x - self.mean
        return y - (y @ self.directions.T * self.weights) @ self.directions


def fit_all_but_the_top(points: Tensor, D: int | None = None, components: Components | None = None) -> Removal:
    """Fit the removal of the mean and the top D principal components of points [n, d] (Mu & Viswanath 2018).

    D = None takes max(1, d // 100). Directions without variance are never removed. Raises ValueError unless
    0 <= D <= d and points are finite.
    """
    components = components or principal_components(points)
    directions = components.directions[: components_to_remove(D, points.shape[1])]
    return Removal(components.mean, directions, directions.new_ones(len(directions)))


def fit_weighted_removal(points: Tensor, D: int | None = None, components: Components | None = None) -> Removal:
    """Fit the removal of the mean and a part of the top D components of points [n, d] (after Liang et al. 2021).

    Liang et al. train weights on human scores. Here weights in [0, 1] maximize IsoScore of fitted points. It grows with
    (sum r)^2 / sum r^2 of the variances r_i = (1 - weight_i)^2 v_i that remain of the variances v; its derivative is 0
    at weight_i = 1 - sqrt(c / v_i), where c = sum_{i > D} v_i^2 / sum_{i > D} v_i, or the smallest top variance if no
    component is below the top. D = None takes max(1, d // 100). Raises ValueError unless 0 <= D <= d.
    """
    components = components or principal_components(points)
    D = components_to_remove(D, points.shape[1])
    top, tail = components.variances[:D], components.variances[D:]
    c = tail.square().sum() / tail.sum() if len(tail) > 0 else top[-1:]
    return Removal(components.mean, components.directions[:D], (1 - (c / top).sqrt()).clamp(0, 1))


def components_to_remove(D: int | None, d: int, dimensions_per_component: int = 100) -> int:
    """Return D, by default d // ``dimensions_per_component`` but at least 1; raise ValueError unless 0 <= D <= d."""
    if D is None:
        return max(1, d // dimensions_per_component)
    if not 0 <= D <= d:
        raise ValueError(f"Expected 0 <= D <= d = {d} components to remove, got {D}: there are d directions.")
    return D


CLUSTERED_ROWS = 20_000  # Maximum rows from which k-means learns its centroids


@dataclass(frozen=True, eq=False)
class ClusterRemoval(FittedMap):
    """Removal of the mean and top components of a point's cluster, that of the nearest centroid, the first if tied."""

    SHAPES: ClassVar = {"mean": "clusters d", "centroids": "clusters d", "directions": "clusters D d"}

    centroids: Tensor  # [clusters, d] float64, from k-means
    # [clusters, D, d] float64, orthonormal, then rows of zeros where a cluster has fewer directions of variance.
    directions: Tensor

    def _map(self, x: Tensor) -> Tensor:
        nearest = _nearest_centroids(x, self.centroids)
        y = x - self.mean[nearest]
        for cluster in torch.unique(nearest):
            rows = nearest == cluster
            U = self.directions[cluster]
            y[rows] -= y[rows] @ U.T @ U
        return y


def fit_cluster_based(points: Tensor, clusters: int = 27, D: int | None = None, seed: int = 0) -> ClusterRemoval:
    """Fit k-means, and the removal of mean and top D components in each cluster, on points [n, d].

    New points go to the nearest centroid. k-means runs once from k-means++, on at most ``CLUSTERED_ROWS`` points drawn
    by ``seed``. D = None takes max(1, d // 64). Fitted points map to 0 if their cluster has at most D directions of
    variance. Raises ValueError unless 1 <= clusters <= n and 0 <= D <= d, and for points whose squares leave float64.
    """
    # Imported here, because no other method needs scikit-learn, which takes a second to import.
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    require_fit_points(points)
    n, d = points.shape
    if not 1 <= clusters <= n:
        raise ValueError(f"Expected 1 <= clusters <= n = {n}, got {clusters}: there are n points to share out.")
    D = components_to_remove(D, d, dimensions_per_component=64)
    x = points.double()
    require_finite_variances(torch.linalg.vector_norm(x, dim=1).square().sum())
    training_points = x
    if n > (max_rows := max(CLUSTERED_ROWS, clusters)):
        drawn_rows = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:max_rows]
        training_points = x[drawn_rows.sort().values.to(x.device)]
    kmeans = KMeans(clusters, n_init=1, random_state=seed)
    with warnings.catch_warnings():
        # With fewer distinct points than clusters, some clusters stay empty, which is harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans.fit(training_points.cpu().numpy())
    centroids = torch.from_numpy(kmeans.cluster_centers_).to(x)
    nearest = _nearest_centroids(x, centroids)
    means, directions = centroids.clone(), x.new_zeros(clusters, D, d)
    for cluster in torch.unique(nearest):
        components = principal_components(points[nearest == cluster])
        top = components.directions[:D]
        means[cluster], directions[cluster, : len(top)] = components.mean, top
    return ClusterRemoval(means, centroids, directions)


def _nearest_centroids(x: Tensor, centroids: Tensor) -> Tensor:
    """Return the index [m] of the nearest centroid, by differences, whose rounding does not depend on other rows."""
    return torch.cdist(x, centroids, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)
