"""Rows that are not finite, and rows that repeat others, exactly or up to rounding.

Near copies, such as one vector in float32 and in float16, are searched in 16 random directions (Johnson & Lindenstrauss
1984). Rows on a curve or in few dimensions may be just as near, but then other rows lie only a little farther away,
while copies have no such neighbors.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.findings.finding import (
    REFERENCE_ROWS,
    Defect,
    Effect,
    ExaminedCloud,
    Severity,
    judge,
    neighbors_kept_effect,
    percent,
    score_effects,
)
from isotropy.findings.nearest import NEAREST
from isotropy.rows import Duplicates, finite_chunks, finite_rows
from isotropy.score import Score

# Maximum distance of copies, relative to the row's length and to the usual distance of rows; bfloat16 rounds less.
ROUNDING = 5e-3
SEPARATION_FACTOR = 4.0  # Within this multiple of the copy distance hardly any other row has a neighbor
MIN_COPY_SHARE = 0.8  # Minimum share of copies among rows with a neighbor that near
MAX_REPEATED = 0.9  # Maximum share of repeated rows; with more, the cloud has collapsed to a few points
DIRECTIONS = 16
MAX_LINKED_COPIES = 10  # Copies of a row that are checked to link its group
SEED = 0


def near_copies(examined: ExaminedCloud, distinct: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the copy group of each row at the ascending positions ``distinct`` [m], int64 [m]; -1 without a copy.

    Clouds of more than ``REFERENCE_ROWS`` rows are not searched.
    """
    from scipy.sparse import coo_array  # noqa: PLC0415 - slow to import, as the next two
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415
    from scipy.spatial import KDTree  # noqa: PLC0415

    groups = np.full(len(distinct), -1)
    if not 2 <= len(distinct) <= REFERENCE_ROWS:
        return groups
    # Project centered rows on random directions, and compute the norms of the rows.
    cloud = examined.cloud
    generator = torch.Generator().manual_seed(SEED)
    directions = torch.randn(cloud.d, DIRECTIONS, dtype=torch.float64, generator=generator) / DIRECTIONS**0.5
    projected, norms = [], []
    for chunk, positions, _ in finite_chunks(cloud.points):
        x = chunk[torch.from_numpy(np.isin(positions, distinct))].double()
        projected.append(((x - cloud.moments.mean) @ directions).numpy())
        norms.append(torch.linalg.vector_norm(x, dim=1).numpy())
    points, lengths = np.concatenate(projected), np.concatenate(norms)
    order = np.random.default_rng(SEED).permutation(len(points))
    usual_distance = float(np.median(np.linalg.norm(points[order[1:]] - points[order[:-1]], axis=1)))
    if usual_distance == 0:
        return groups
    neighbor_distances = KDTree(points).query(
        points, k=2, distance_upper_bound=SEPARATION_FACTOR * ROUNDING * usual_distance
    )[0][:, 1]
    is_copy = neighbor_distances <= ROUNDING * np.minimum(lengths, usual_distance)
    if not is_copy.any() or is_copy.sum() < MIN_COPY_SHARE * np.isfinite(neighbor_distances).sum():
        return groups
    copies = points[is_copy]
    link_distances, link_targets = KDTree(copies).query(
        copies, k=min(MAX_LINKED_COPIES + 1, len(copies)), distance_upper_bound=ROUNDING * usual_distance
    )
    first, second = np.isfinite(link_distances).nonzero()[0], link_targets[np.isfinite(link_distances)]
    links = coo_array((np.ones(len(first)), (first, second)), shape=(len(copies), len(copies)))
    count, components = connected_components(links, directed=False)
    if len(copies) - count <= MAX_REPEATED * len(points):
        groups[is_copy] = components
    return groups


FEW_COPIES = 0.01  # Share of repeats up to which only neighbors are compared, not scores
MAX_NAMED_DIMENSIONS = 0.1  # Share of the dimensions up to which those with missing values are named


def not_finite(examined: ExaminedCloud) -> Defect | None:
    """Find rows with NaN or infinity; its severity is ERROR if no other row is left."""
    cloud = examined.cloud
    if cloud.n_left_out == 0:
        return None
    rows, nonfinite_counts = [], torch.zeros(cloud.points.d, dtype=torch.int64)
    n_read = 0
    for chunk, is_finite in finite_rows(cloud.points):
        rows.append(n_read + (~is_finite).nonzero().squeeze(1).numpy())
        nonfinite_counts += (~chunk[~is_finite].isfinite()).sum(0)
        n_read += len(chunk)
    positions = np.concatenate(rows)
    dimensions = nonfinite_counts.nonzero().squeeze(1).numpy()
    named_dimensions = dimensions[:0] if len(dimensions) > max(1, MAX_NAMED_DIMENSIONS * cloud.points.d) else dimensions
    count = len(positions)
    undefined_score = Score.undefined(
        "NaN or infinity in one row makes it undefined: those rows are left out of all measures."
    )
    return Defect(
        slug="not_finite",
        severity=Severity.ERROR if cloud.n == 0 else Severity.WARNING,
        title=f"{'1 row has' if count == 1 else f'{count:,} rows have'} NaN or infinity",
        evidence=(
            f"{count:,} of {n_read:,} rows ({percent(count / n_read)}) have a value that is not finite, in "
            f"{len(dimensions):,} of {cloud.points.d:,} dimensions. Every measure leaves these rows out."
        ),
        effect=Effect("isoscore", undefined_score, cloud.moment_scores["isoscore"]),
        rows=positions,
        dimensions=named_dimensions,
    )


def duplicate_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows that repeat an earlier one, exactly or up to rounding.

    It is a warning if repeats are more than 5% of the rows, copies take more than 5% of the neighbor slots, or the
    score changes without them.
    """
    cloud = examined.cloud
    if cloud.n < 2:
        return None
    groups, n_exact = _find_copy_groups(examined)
    measured_rows = np.setdiff1d((groups >= 0).nonzero()[0], examined.excluded_rows)
    _, first_indices, codes, counts = np.unique(
        groups[measured_rows], return_index=True, return_inverse=True, return_counts=True
    )
    repeats = np.delete(measured_rows, first_indices)
    if len(repeats) == 0 or len(first_indices) == 1:
        return None
    neighbor_shares = np.minimum(counts[codes] - 1, NEAREST) / NEAREST
    effects = [neighbors_kept_effect(1 - float(neighbor_shares.mean()))]
    remaining = None
    if len(repeats) > FEW_COPIES * len(measured_rows):
        remaining = examined.without_rows(repeats)
        effects += score_effects(cloud, remaining.cloud)
    effect, severity = judge(effects, cloud.d, affected_share=len(repeats) / len(measured_rows))
    description = "exact duplicates"
    if len(repeats) != n_exact:
        exact_clause = f", {n_exact:,} of them exactly" if n_exact else ""
        description = f"duplicates up to rounding ({100 * ROUNDING:g}% of their length){exact_clause}"
    return Defect(
        slug="duplicate_rows",
        severity=severity,
        title=f"{len(repeats):,} duplicate {'row' if len(repeats) == 1 else 'rows'}",
        evidence=(
            f"{len(repeats):,} of {len(measured_rows):,} rows ({percent(len(repeats) / len(measured_rows))}) are "
            f"{description}; one row occurs {int(counts.max()):,} times. They take "
            f"{percent(float(neighbor_shares.mean()))} of the places among the {NEAREST} nearest neighbors."
        ),
        effect=effect,
        rows=repeats,
        remaining=remaining if severity is not Severity.NOTE else None,
    )


def _find_copy_groups(examined: ExaminedCloud) -> tuple[NDArray[np.int64], int]:
    """Return the copy group of each row, int64 [n], -1 for rows left out; and the number of exact repeats."""
    cloud = examined.cloud
    groups = cloud.dealing.group_numbers
    if cloud.dealing.grouping == "groups":
        duplicates = Duplicates(cloud.points.n)
        for chunk, positions, _ in finite_chunks(cloud.points):
            duplicates.update(chunk.numpy(), positions)
        groups = duplicates.dealing().group_numbers
    if groups is None:
        groups = np.full(cloud.points.n, -1)
        for _, positions, _ in finite_chunks(cloud.points):
            groups[positions] = positions
    remaining = np.setdiff1d((groups >= 0).nonzero()[0], examined.excluded_rows)
    _, first_indices, codes = np.unique(groups[remaining], return_index=True, return_inverse=True)
    # Keep file order, which the search for near copies expects.
    order = np.argsort(first_indices)
    copy_groups = near_copies(examined, remaining[first_indices[order]])
    merged = np.where(copy_groups >= 0, copy_groups, copy_groups.max(initial=-1) + 1 + np.arange(len(copy_groups)))
    groups = np.full(len(groups), -1)
    groups[remaining] = merged[np.argsort(order)][codes]
    return groups, len(remaining) - len(first_indices)
