"""Silhouettes: how well labeled classes are separated. Labels are integer codes; leave out points without one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from isotropy.distances import CenteredPoints, center_of, distances
from isotropy.labels import classes_of
from isotropy.points import scaled
from isotropy.score import Score, there_are

TILE_ROWS = 512  # Maximum rows and columns of a tile of distances: 2 MB
# Distances to a centroid below this fraction of the point's length are rounding errors.
ROUNDING = 1e-15


def silhouette(x: Tensor, labels: Tensor) -> Score:
    """Return the mean silhouette of points [n, d] with class codes [n], in [-1, 1] (Rousseeuw 1987), over all pairs.

    The silhouette of a point is (b - a) / max(a, b): a is its mean distance to the other points of its class, b the
    smallest mean distance to another class. It is 0 for the only point of a class. Takes n^2 d operations in float64.
    Undefined for fewer than two classes, for as many classes as points, and for NaN or infinity. Raises ValueError for
    points or labels of another type or shape.
    """
    classes = _sort_by_class("silhouette", x, labels)
    if isinstance(classes, str):
        return Score.undefined(classes)
    class_mates = (classes.sizes - 1)[classes.codes]
    points = CenteredPoints.about(center_of(classes.points), classes.points)
    own_sums, nearest_distances = _distances_to_classes(points, classes.sizes.tolist())
    silhouettes = _silhouettes(own_sums / class_mates.clamp(min=1), nearest_distances)
    return Score.clipped(float(silhouettes.masked_fill(class_mates == 0, 0).mean()), -1, 1)


def simplified_silhouette(x: Tensor, labels: Tensor) -> Score:
    """Return the mean simplified silhouette of points [n, d] with class codes [n], in [-1, 1] (Hruschka et al. 2006).

    Here a and b of ``silhouette`` are distances to the centroids of the k classes, in n k d operations.
    """
    classes = _sort_by_class("simplified silhouette", x, labels)
    if isinstance(classes, str):
        return Score.undefined(classes)
    center = center_of(classes.points)
    # Averaging offsets from a class's first point is exact if all its points are equal.
    first_points = classes.points[classes.sizes.cumsum(0) - classes.sizes]
    offsets = torch.zeros_like(first_points)
    chunks = list(zip(torch.split(classes.points, TILE_ROWS), torch.split(classes.codes, TILE_ROWS), strict=True))
    for chunk, codes in chunks:
        offsets.index_add_(0, codes, chunk - first_points[codes])
    centroids = first_points + offsets / classes.sizes[:, None]
    centered_centroids = CenteredPoints.about(center, centroids)
    total = centroids.new_zeros(())
    for chunk, codes in chunks:
        own_distances = torch.linalg.vector_norm(chunk - centroids[codes], dim=1)
        other_distances = distances(CenteredPoints.about(center, chunk), centered_centroids, codes).amin(1)
        total += _silhouettes(own_distances, other_distances, ROUNDING * torch.linalg.vector_norm(chunk, dim=1)).sum()
    return Score.clipped(float(total / len(x)), -1, 1)


@dataclass(frozen=True)
class _Classes:
    """Labeled points sorted by class."""

    points: Tensor  # float64 [n, d], scaled by a power of two
    codes: Tensor  # The class of each point, int64 [n], from 0 to k - 1
    sizes: Tensor  # Points of each class, int64 [k]


def _sort_by_class(name: str, x: Tensor, labels: Tensor) -> _Classes | str:
    """Return points [n, d] sorted by class, or why they have no silhouette, in a sentence."""
    _, codes, sizes = classes_of(x, labels)
    if len(sizes) < 2:
        return f"The {name} needs at least 2 classes; {there_are(len(sizes))}."
    if len(sizes) == len(x):
        return f"The {name} needs a class of at least 2 points; each of the {len(x)} points has its own class."
    if not x.isfinite().all():
        return f"The {name} is not finite: some points are NaN or infinite."
    order = codes.argsort(stable=True)
    points, _ = scaled(x.detach()[order].double())
    return _Classes(points, codes[order], sizes)


def _silhouettes(a: Tensor, b: Tensor, rounding: Tensor | float = 0) -> Tensor:
    """Return the silhouettes [n], (b - a) / max(a, b) of distances [n]; 0 where both are at most ``rounding``."""
    larger = torch.maximum(a, b)
    return torch.where(larger > rounding, (b - a) / larger, 0)


@dataclass(frozen=True)
class _Group:
    """Adjacent small classes that fill about one tile, or one larger class."""

    rows: range  # Positions of their points, sorted by class
    membership: Tensor  # float64 [rows, classes], 1 where the row belongs to the class, else 0


def _distances_to_classes(points: CenteredPoints, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return each point's sum of distances to its own class and smallest mean distance to another, [n] each."""
    own_sums = torch.zeros_like(points.squared_norms)
    nearest_distances = torch.full_like(own_sums, math.inf)
    groups, start, pending_sizes = [], 0, list[int]()
    for size, next_size in zip(sizes, [*sizes[1:], math.inf], strict=True):
        pending_sizes.append(size)
        rows = sum(pending_sizes)
        if rows + next_size > TILE_ROWS:
            codes = torch.arange(len(pending_sizes)).repeat_interleave(torch.tensor(pending_sizes))
            groups.append(_Group(range(start, start + rows), one_hot(codes).to(own_sums)))
            start, pending_sizes = start + rows, []
    for index, group in enumerate(groups):
        group_rows = slice(group.rows.start, group.rows.stop)
        sums, _ = _sum_distances(points, group, group)
        own_sums[group_rows] = (sums * group.membership).sum(1)
        mean_distances = (sums / group.membership.sum(0)).masked_fill_(group.membership.bool(), math.inf)
        nearest_distances[group_rows] = torch.minimum(nearest_distances[group_rows], mean_distances.amin(1))
        for later_group in groups[index + 1 :]:
            later_rows = slice(later_group.rows.start, later_group.rows.stop)
            forward_sums, backward_sums = _sum_distances(points, group, later_group)
            nearest_distances[group_rows] = torch.minimum(
                nearest_distances[group_rows], (forward_sums / later_group.membership.sum(0)).amin(1)
            )
            nearest_distances[later_rows] = torch.minimum(
                nearest_distances[later_rows], (backward_sums / group.membership.sum(0)).amin(1)
            )
    return own_sums, nearest_distances


def _sum_distances(points: CenteredPoints, first: _Group, second: _Group) -> tuple[Tensor, Tensor]:
    """Return the sums of distances of each row of a group to each class of the other, and the reverse."""
    forward_sums = points.squared_norms.new_zeros(len(first.rows), second.membership.shape[1])
    backward_sums = (
        forward_sums if first is second else points.squared_norms.new_zeros(len(second.rows), first.membership.shape[1])
    )
    first_points, second_points = (points[group.rows.start : group.rows.stop] for group in (first, second))
    for i in range(0, len(first.rows), TILE_ROWS):
        rows = slice(i, i + TILE_ROWS)
        x = first_points[rows]
        for j in range(i if first is second else 0, len(second.rows), TILE_ROWS):
            columns = slice(j, j + TILE_ROWS)
            if first is second and i == j:
                diagonal = torch.arange(len(x.squared_norms), device=x.squared_norms.device)
                forward_sums[rows] += distances(x, x, diagonal).fill_diagonal_(0) @ second.membership[columns]
                continue
            tile = distances(x, second_points[columns])
            forward_sums[rows] += tile @ second.membership[columns]
            backward_sums[columns] += tile.T @ first.membership[rows]
    return forward_sums, backward_sums
