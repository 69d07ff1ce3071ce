"""Several clouds in one: parts with a gap between them that no healthy cloud has."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isotropy.catalog import FINDINGS
from isotropy.cosine import unit_rows
from isotropy.findings.directions import are_unrelated
from isotropy.findings.finding import Defect, ExaminedCloud, Severity, judge, percent, score_effects
from isotropy.findings.limits import healthy_limit
from isotropy.findings.spread import has_unequal_norms

# Minimum standard deviations between two parts. A cut in the middle then misplaces about 1 row in 160; parts of real
# clouds, such as topics, overlap more.
MIN_SEPARATION = 5.0
MAX_PARTS = 4  # More parts are clusters, such as topics, not a mixture of clouds
FEWEST_ROWS = 40  # Minimum rows of a part to split it again
# Minimum share of rows in the part of their label for parts to match the labels.
SAME_AS_LABELS = 0.95
# Minimum sample rows of a label; a label of one row always lies in one part.
MIN_ROWS_PER_LABEL = 5


class _CloudPart(NamedTuple):
    """Rows of the sample, with the cuts that separate them from the others."""

    mask: Tensor  # Whether each row of the sample is in the part
    cuts: "tuple[tuple[CloudSplit, bool], ...]"  # Each with whether the part is on its upper side

    def row_mask(self, y: Tensor) -> Tensor:
        """Return a mask [n] of the points y [n, r] in the part, by its cuts."""
        is_inside = torch.ones(len(y), dtype=torch.bool)
        for split, is_upper in self.cuts:
            is_inside &= split.upper_mask(y) == is_upper
        return is_inside


def mixed_clouds(examined: ExaminedCloud) -> Defect | None:
    """Find the rows outside the largest part, if a cloud falls into two to four parts."""
    if not examined.has_spread or examined.cloud.d < 2:
        return None
    # With very unequal norms, compare angles: otherwise long rows would form a separate part.
    uses_directions = has_unequal_norms(examined)
    sample = unit_rows(examined.sample) if uses_directions else examined.sample
    mean, directions = leading_directions(sample)
    y = (sample - mean) @ directions
    parts, separation = _split_into_parts(y, examined.cloud.d)
    if not 2 <= len(parts) <= MAX_PARTS:
        return None
    largest = max(parts, key=lambda part: int(part.mask.sum()))
    minorities = []
    for rows, positions in examined.reference_rows():
        x = unit_rows(rows.double()) if uses_directions else rows.double()
        minorities.append(positions[~largest.row_mask((x - mean) @ directions)].numpy())
    minority = np.sort(np.concatenate(minorities))
    remaining = examined.without_rows(minority)
    first, second = sorted(parts, key=lambda part: int(part.mask.sum()))[-2:]
    units = unit_rows(examined.sample - examined.cloud.moments.mean).float()
    # Parts of one model share directions, and may lie apart without any defect.
    unrelated = are_unrelated(units[first.mask], units[second.mask])
    effect, severity = judge(
        score_effects(examined.cloud, remaining.cloud),
        examined.cloud.d,
        affected_share=len(minority) / examined.cloud.n if unrelated else 0.0,
    )
    sizes = sorted((int(part.mask.sum()) / len(y) for part in parts), reverse=True)
    label_share = _share_in_part_of_label(examined, parts)
    is_by_label = label_share is not None and label_share >= SAME_AS_LABELS
    row_sentence = (
        f"The parts are those of the labels: {percent(label_share)} of the rows lie in the part of their label."
        if label_share is not None and is_by_label
        else "The rows outside the largest part are listed."
    )
    if unrelated:
        row_sentence += " Their directions are unrelated, as after a rotation or permutation."
    return Defect(
        slug="mixed_clouds",
        severity=Severity.NOTE if is_by_label else severity,
        title=f"{len(parts)} separate clouds{', by label' * is_by_label}: {', '.join(map(percent, sizes))} of the rows",
        evidence=(
            f"Along one direction two parts are {min(separation, 999):.3g} standard deviations apart. In a healthy "
            f"cloud of this size it is at most {_separation_limit(len(y), examined.cloud.d):.2g}. {row_sentence}"
        ),
        effect=effect,
        rows=minority,
        remaining=None if is_by_label else remaining,
        advice=FINDINGS["mixed_clouds"].advice_by_label if is_by_label else None,
    )


def _share_in_part_of_label(examined: ExaminedCloud, parts: list[_CloudPart]) -> float | None:
    """Return the share of rows in the part where most rows of their label lie; None if labels are uninformative.

    Labels are informative if most rows share theirs with others and each part is the main part of some label.
    """
    labels = examined.cloud.labels
    if labels is None:
        return None
    n = len(parts[0].mask)
    label_codes, codes = torch.unique(labels.codes[:n], return_inverse=True)
    counts = torch.stack([torch.bincount(codes[part.mask], minlength=len(label_codes)) for part in parts])
    has_name = torch.tensor([bool(labels.names[code]) for code in label_codes.tolist()])
    counts = counts[:, has_name & (counts.sum(0) >= MIN_ROWS_PER_LABEL)]
    labeled_count = int(counts.sum())
    if labeled_count < n / 2 or len(set(counts.argmax(0).tolist())) < len(parts):
        return None
    return int(counts.amax(0).sum()) / labeled_count


def _split_into_parts(y: Tensor, d: int) -> tuple[list[_CloudPart], float]:
    """Split points [n, r] until no part splits, or there are over ``MAX_PARTS``; return parts and widest separation."""
    parts: list[_CloudPart] = []
    pending, widest = [_CloudPart(torch.ones(len(y), dtype=torch.bool), ())], 0.0
    while pending and len(pending) + len(parts) <= MAX_PARTS:
        part = pending.pop()
        points = y[part.mask]
        split = best_split(points) if len(points) >= FEWEST_ROWS else None
        if split is None or split.separation <= _separation_limit(len(points), d):
            parts.append(part)
            continue
        widest = max(widest, split.separation)
        pending += [
            _CloudPart(part.mask & (split.upper_mask(y) == is_upper), (*part.cuts, (split, is_upper)))
            for is_upper in (True, False)
        ]
    return parts + pending, widest


def _separation_limit(n: int, d: int) -> float:
    return max(MIN_SEPARATION, healthy_limit("separation", n, d))


MIN_SHARE = 0.05  # Minimum share of rows in a part; smaller groups are outliers
# Minimum rows in a part: with fewer, the tail of a skewed dimension splits off, in 12% of clouds of 60 rows.
FEWEST_IN_A_PART = 10
N_STARTS = 5  # Leading directions from which the search for a split starts
ROUNDS = 6  # Number of times the direction is refined
# Maximum leading directions searched for a split; fewer for few rows, which noise alone would split
MAX_COMPONENTS = 20
ROWS_PER_COMPONENT = 20


class CloudSplit(NamedTuple):
    """Points y are in the upper part where y . direction > threshold."""

    # Distance of the parts' means over the root mean square of their standard deviations (Ashman et al. 1994).
    separation: float
    direction: Tensor
    threshold: float

    def upper_mask(self, y: Tensor) -> Tensor:
        return y @ self.direction > self.threshold


def leading_directions(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean [d] of points, float64 [n, d], and their leading principal directions [d, r]."""
    n, d = x.shape
    mean = x.mean(0)
    y = x - mean
    r = max(1, min(MAX_COMPONENTS, d, n // ROWS_PER_COMPONENT))
    if n < d:
        directions = y.T @ torch.linalg.eigh(y @ y.T).eigenvectors[:, -r:]
        return mean, (directions / directions.norm(dim=0).clamp(min=1e-300)).flip(1)
    return mean, torch.linalg.eigh(y.T @ y).eigenvectors[:, -r:].flip(1)


def best_split(y: Tensor) -> CloudSplit | None:
    """Return the split of points, float64 [n, r], with the widest separation; None if they are too few or equal.

    Each of the ``N_STARTS`` leading directions is cut, then Fisher's discriminant of the two parts is cut repeatedly.
    """
    splits = [split for start in range(min(N_STARTS, y.shape[1])) if (split := _best_split_from(y, start)) is not None]
    return max(splits, key=lambda split: split.separation, default=None)


def _best_split_from(y: Tensor, start: int) -> CloudSplit | None:
    """Return the best cut along a leading direction, refined along Fisher's discriminant of the parts."""
    direction = torch.zeros(y.shape[1], dtype=y.dtype)
    direction[start] = 1
    best: CloudSplit | None = None
    n = len(y)
    min_rows = max(FEWEST_IN_A_PART, int(MIN_SHARE * n))
    for _ in range(ROUNDS):
        cut = cut_projection(y @ direction, min_rows)
        if cut is None or (best is not None and cut.separation <= best.separation):
            break
        split = CloudSplit(cut.separation, direction, cut.threshold)
        best, upper = split, split.upper_mask(y)
        parts = y[upper], y[~upper]
        first, second = (part.mean(0) for part in parts)
        scatters = ((part - mean).T @ (part - mean) for part, mean in zip(parts, (first, second), strict=True))
        within_scatter = sum(scatters, y.new_zeros(()))
        ridge = within_scatter.trace() / len(within_scatter) * 1e-9
        direction = torch.linalg.solve(
            within_scatter + ridge * torch.eye(len(within_scatter), dtype=y.dtype), first - second
        )
        direction = direction / direction.norm()
    return best


class ProjectionCut(NamedTuple):
    """The cut of numbers in two parts with the largest variance between them (Otsu 1979)."""

    separation: float  # Distance of the parts' means over the root mean square of their standard deviations
    threshold: float


def cut_projection(p: Tensor, min_rows: int) -> ProjectionCut | None:
    """Cut numbers [n] in two parts of ``min_rows`` or more; None if they are too few or all equal."""
    n = len(p)
    below = torch.arange(min_rows, n - min_rows + 1)
    ordered = (p - p.mean()).sort().values
    if len(below) == 0 or float(ordered[-1]) == float(ordered[0]):
        return None
    sums, squares = ordered.cumsum(0), ordered.square().cumsum(0)
    between = sums[below - 1].square() / (below * (n - below))
    k = int(below[between.argmax()])
    low, high = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    variances = (squares[k - 1] / k - low**2).clamp(min=0)
    variances = variances + ((squares[-1] - squares[k - 1]) / (n - k) - high**2).clamp(min=0)
    scale = float((variances / 2).sqrt())
    separation = float(high - low) / scale if scale > 0 else float("inf")
    return ProjectionCut(separation, float((ordered[k - 1] + ordered[k]) / 2 + p.mean()))
