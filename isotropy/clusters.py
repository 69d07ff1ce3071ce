"""Labelled classes of a cloud: how well they are apart, and a score of each class.

Labels are codes, one a point. Points without a label are left out by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from isotropy.points import require_points
from isotropy.score import Score
from isotropy.spectrum import centre

TILE_ROWS = 512
"""Points whose distances to as many others are held at once: 2 MB."""

ROUNDING = 1e-7
"""Distances below this part of the points' own length are 0 but for the rounding of float64, whose root it is."""


def silhouette(x: Tensor, labels: Tensor) -> Score:
    """Return the mean silhouette of points [n, d] in classes, in [-1, 1] (Rousseeuw 1987), exact over all pairs.

    The silhouette of a point is (b - a) / max(a, b): a is its mean Euclidean distance to the other points of its class,
    b that to the points of the class where it is least. It is 0 for the only point of a class and where a = b = 0.

    Distances come from matrix products of the centred points, in float64 whatever their dtype, as float32 would lose
    those within a tight class. Time grows with n^2 d; no more than a tile of distances is held.

    Undefined for fewer than two classes, for as many classes as points, and for NaN or infinity.

    Args:
        x: [n, d].
        labels: the class of each point, integers [n].

    Raises:
        ValueError: ``x`` is not a floating tensor [n, d], or ``labels`` not an integer tensor [n].

    """
    _, codes, sizes = _classes(x, labels)
    order = codes.argsort(stable=True)
    points = _of_size_one(x[order])
    if (reason := _why_undefined(points, sizes)) is not None:
        return Score.undefined(f"The silhouette {reason}")
    others = (sizes - 1)[codes[order]]
    own, nearest = _distances_to_classes(points, sizes.tolist())
    silhouettes = _silhouettes(points, own / others.clamp(min=1), nearest)
    return Score.within(float(silhouettes.masked_fill(others == 0, 0).mean()), -1, 1)


def simplified_silhouette(x: Tensor, labels: Tensor) -> Score:
    """Return the mean simplified silhouette of points [n, d] in classes, in [-1, 1] (Hruschka et al. 2006).

    As ``silhouette``, with distances to the centroids of the classes, so that time grows with n k d for k classes.
    The only point of a class lies on its centroid: a = 0, which makes its silhouette 1 (0 if b = 0 too).
    """
    _, codes, sizes = _classes(x, labels)
    points = _of_size_one(x)
    if (reason := _why_undefined(points, sizes)) is not None:
        return Score.undefined(f"The simplified silhouette {reason}")
    centroids = points.new_zeros(len(sizes), points.shape[1]).index_add_(0, codes, points) / sizes[:, None]
    total = points.new_zeros(())
    for chunk, own_codes in zip(torch.split(points, TILE_ROWS), torch.split(codes, TILE_ROWS), strict=True):
        own = torch.linalg.vector_norm(chunk - centroids[own_codes], dim=1)
        others = _distances(chunk, centroids).scatter_(1, own_codes[:, None], math.inf)
        total += _silhouettes(chunk, own, others.amin(1)).sum()
    return Score.within(float(total / len(points)), -1, 1)


@dataclass(frozen=True)
class ClassScore:
    """The score of the points of one class."""

    label: int
    n: int
    """Points of the class."""
    score: Score


@dataclass(frozen=True)
class ScoreByLabel:
    """The scores of the classes, in ascending order of their labels, and their mean."""

    score: Score
    """The mean over the classes that have a score, each with the same weight, in the range of the measure."""
    classes: tuple[ClassScore, ...]


def score_by_label(x: Tensor, labels: Tensor, measure: Callable[[Tensor], Score]) -> ScoreByLabel:
    """Return the score by ``measure``, such as ``isoscore``, of the points [n_c, d] of each class.

    The mean is undefined where no class has a score.

    Args:
        x: [n, d].
        labels: the class of each point, integers [n].
        measure: a score of points.

    Raises:
        ValueError: as by ``silhouette``.

    """
    names, codes, sizes = _classes(x, labels)
    members = torch.split(codes.argsort(stable=True), sizes.tolist())
    classes = tuple(
        ClassScore(int(name), len(rows), measure(x[rows])) for name, rows in zip(names.tolist(), members, strict=True)
    )
    values = [one.score.value for one in classes if one.score.value is not None]
    if values:
        return ScoreByLabel(Score(math.fsum(values) / len(values)), classes)
    if not classes:
        return ScoreByLabel(Score.undefined("A score by label needs labelled points; there is none."), classes)
    reason = f"None of the {len(classes)} classes has a score. The first: {classes[0].score.reason}"
    return ScoreByLabel(Score.undefined(reason), classes)


def _classes(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels that occur, [k], the number of each point's among them, int64 [n], and their counts, [k]."""
    require_points(x)
    if labels.shape != (len(x),) or labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"Expected labels as an integer tensor [{len(x)}], got {list(labels.shape)} of {labels.dtype}: "
            "give each point the code of its class, and leave out points without one."
        )
    names, codes, sizes = torch.unique(labels.to(x.device), return_inverse=True, return_counts=True)
    return names, codes, sizes


def _of_size_one(x: Tensor) -> Tensor:
    """Return points centred and scaled to size 1, float64 [n, d]: no silhouette depends on place or scale."""
    points = x.detach().double()
    if len(points) > 0:
        _, points = centre(points)
        points /= points.abs().max().clamp(min=torch.finfo(torch.float64).tiny)
    return points


def _why_undefined(points: Tensor, sizes: Tensor) -> str | None:
    if len(sizes) < 2:
        return f"needs at least 2 classes; there is {len(sizes)}."
    if len(sizes) == len(points):
        return f"needs a class of at least 2 points; each of the {len(points)} points has a class of its own."
    if not points.isfinite().all():
        return "is not finite: some points are NaN, infinite or too large."
    return None


def _silhouettes(points: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return (b - a) / max(a, b) for centred points [n, d], [n], 0 where both are 0."""
    greater = torch.maximum(a, b)
    return torch.where(greater > ROUNDING * torch.linalg.vector_norm(points, dim=1), (b - a) / greater, 0)


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """Return the Euclidean distances of rows [n, d] to rows [m, d], [n, m]."""
    squares = torch.addmm(y.square().sum(1), x, y.T, alpha=-2).add_(x.square().sum(1)[:, None])
    return squares.clamp_(min=0).sqrt_()


@dataclass(frozen=True)
class _Group:
    """Small classes side by side, about a tile of them, or one larger class."""

    rows: range
    members: Tensor
    """Whether a row is in a class, float64 [rows, classes], 1 or 0."""

    @property
    def sizes(self) -> Tensor:
        return self.members.sum(0)


def _distances_to_classes(points: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the sum of distances to the own class, [n], and the least mean distance to another, [n].

    For points [n, d] in the order of their classes. Each pair of groups is met once, for both sides: no matrix [n, k]
    is needed, as a group has all points of its classes.
    """
    own = points.new_zeros(len(points))
    nearest = points.new_full((len(points),), math.inf)
    groups = _groups(points, sizes)
    for number, group in enumerate(groups):
        inside = slice(group.rows.start, group.rows.stop)
        sums, _ = _distance_sums(points, group, group)
        own[inside] = (sums * group.members).sum(1)
        elsewhere = (sums / group.sizes).masked_fill_(group.members.bool(), math.inf)
        nearest[inside] = torch.minimum(nearest[inside], elsewhere.amin(1))
        for other in groups[number + 1 :]:
            outside = slice(other.rows.start, other.rows.stop)
            there, back = _distance_sums(points, group, other)
            nearest[inside] = torch.minimum(nearest[inside], (there / other.sizes).amin(1))
            nearest[outside] = torch.minimum(nearest[outside], (back / group.sizes).amin(1))
    return own, nearest


def _groups(points: Tensor, sizes: Sequence[int]) -> list[_Group]:
    groups, start, together = [], 0, list[int]()
    for size, following in zip(sizes, [*sizes[1:], math.inf], strict=True):
        together.append(size)
        rows = sum(together)
        if rows + following > TILE_ROWS:
            codes = torch.arange(len(together)).repeat_interleave(torch.tensor(together))
            groups.append(_Group(range(start, start + rows), one_hot(codes).to(points)))
            start, together = start + rows, []
    return groups


def _distance_sums(points: Tensor, group: _Group, other: _Group) -> tuple[Tensor, Tensor]:
    """Return for each row of a group the sum of distances to each class of the other, and the reverse.

    Of a group and itself, the two are the same tensor.
    """
    there = points.new_zeros(len(group.rows), other.members.shape[1])
    back = there if group is other else points.new_zeros(len(other.rows), group.members.shape[1])
    for i in range(0, len(group.rows), TILE_ROWS):
        rows = slice(i, i + TILE_ROWS)
        for j in range(i if group is other else 0, len(other.rows), TILE_ROWS):
            columns = slice(j, j + TILE_ROWS)
            distances = _distances(_part(points, group, rows), _part(points, other, columns))
            on_the_diagonal = group is other and i == j
            if on_the_diagonal:
                distances.fill_diagonal_(0)
            there[rows] += distances @ other.members[columns]
            if not on_the_diagonal:
                back[columns] += distances.T @ group.members[rows]
    return there, back


def _part(points: Tensor, group: _Group, rows: slice) -> Tensor:
    return points[group.rows.start : group.rows.stop][rows]
