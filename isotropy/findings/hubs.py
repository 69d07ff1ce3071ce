"""Hubs: rows that are among the nearest neighbors of far too many others, by angle or by distance.

All high-dimensional clouds have hubs (Radovanović, Nanopoulos & Ivanović 2010), so the limit by angle is that of
healthy clouds with as many rows and effective dimensions. By distance, short rows of every real cloud are hubs. Those
far nearer to the center than others share the neighbor slots, so they are counted together. Others are compared with a
Gaussian cloud of the same variances. Where neighbors are searched by cosine, which has no such hubs, they are a note.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.catalog import FINDINGS, Similarity
from isotropy.findings.finding import (
    FEWEST_DIMENSIONS,
    MATERIAL,
    NO_INDICES,
    Defect,
    ExaminedCloud,
    Severity,
    judge,
    neighbors_kept_effect,
    percent,
)
from isotropy.findings.limits import healthy_limit
from isotropy.findings.nearest import NEAREST, QUERIES, NearestRows, find_nearest
from isotropy.spectrum import eigenvalues

INWARD_FACTOR = 6.0  # Log distance of a hub below the median, in multiples of that of the 10th percentile
ANGLE_LIMIT_FACTOR = 1.5  # Multiple of the limit for hubs by angle; spectra of equal effective dimension differ by less
GAUSSIAN_FACTOR = 1.5  # Multiple of the largest hub's share in one Gaussian cloud; such clouds differ by less
GAUSSIAN_ROWS = 20_000  # Rows of the Gaussian cloud; with more rows the largest hub has a smaller share
SEED = 0
MAX_SHARE = 0.05  # Maximum share of rows that count as hubs; more are part of the cloud


def hubs(examined: ExaminedCloud) -> Defect | None:
    """Find rows that are neighbors of more rows than any row of a healthy cloud is."""
    if not examined.has_spread or examined.effective_dimensions < FEWEST_DIMENSIONS:
        return None
    neighbors = examined.nearest(Similarity.COSINE)
    rows, shares = neighbors.shares()
    is_hub = shares > ANGLE_LIMIT_FACTOR * healthy_limit("hub_cosine", examined.cloud.n, examined.effective_dimensions)
    angle_hubs = _describe_hubs(neighbors, rows[is_hub], "angle about the mean")
    worst = max(angle_hubs, _hubs_by_distance(examined), key=lambda candidate: candidate.slot_share)
    count = len(worst.rows)
    if count == 0:
        return _find_hubs_beyond_gaussian(examined)
    if count > max(1, MAX_SHARE * examined.cloud.n):
        return None
    subject = "1 row is a neighbor" if count == 1 else f"{count:,} rows are neighbors"
    effect, severity = judge([neighbors_kept_effect(1 - worst.slot_share)], examined.cloud.d)
    return Defect(
        slug="hubs",
        severity=severity,
        title=f"{subject} of {percent(worst.row_share)} of all rows",
        evidence=(
            f"{'It takes' if count == 1 else 'They take'} {percent(worst.slot_share)} of the places among the "
            f"{NEAREST} nearest neighbors by {worst.similarity}. In a healthy cloud of this size no row is a "
            "neighbor of that many."
        ),
        effect=effect,
        rows=worst.rows,
        remaining=examined.without_rows(worst.rows),
    )


class _Hubs(NamedTuple):
    """Hubs by one similarity."""

    rows: NDArray[np.int64]  # Positions among the measured rows, in order
    slot_share: float  # Share of all neighbor slots that they fill
    row_share: float  # Share of rows that have any of them as a neighbor
    similarity: str


def _hubs_by_distance(examined: ExaminedCloud) -> _Hubs:
    """Return the rows much closer to the mean than most, if together they are neighbors of too many rows."""
    mean = examined.cloud.moments.mean
    logs = torch.linalg.vector_norm(examined.sample - mean, dim=1).clamp(min=1e-300).log()
    low_log, median_log = logs.quantile(torch.tensor([0.1, 0.5], dtype=torch.float64)).tolist()
    max_distance = float(np.exp(median_log - INWARD_FACTOR * (median_log - low_log)))
    inner_rows = [
        positions[torch.linalg.vector_norm(rows.double() - mean, dim=1) < max_distance]
        for rows, positions in examined.reference_rows()
    ]
    inner_positions = torch.cat(inner_rows)
    # Most clouds have none: skip the search.
    if len(inner_positions) == 0:
        return _Hubs(NO_INDICES, 0.0, 0.0, "distance")
    neighbors = examined.nearest(Similarity.EUCLIDEAN)
    hub_positions = inner_positions[torch.isin(inner_positions, neighbors.neighbors)]
    inner_hubs = _describe_hubs(neighbors, hub_positions, "distance")
    max_share = healthy_limit("hub_euclidean", examined.cloud.n, examined.effective_dimensions)
    return inner_hubs if inner_hubs.row_share > max_share else inner_hubs._replace(rows=NO_INDICES, slot_share=0.0)


def _describe_hubs(neighbors: NearestRows, rows: Tensor, similarity: str) -> _Hubs:
    is_hub = torch.isin(neighbors.neighbors, rows).double()
    return _Hubs(np.sort(rows.numpy()), float(is_hub.mean()), float(is_hub.amax(1).mean()), similarity)


def _find_hubs_beyond_gaussian(examined: ExaminedCloud) -> Defect | None:
    """Find rows that are neighbors by distance of more rows than any in a Gaussian cloud of the same variances."""
    cloud = examined.cloud
    neighbors = examined.nearest(Similarity.EUCLIDEAN)
    rows, shares = neighbors.shares()
    frequent_neighbors = _describe_hubs(neighbors, rows[shares > MATERIAL], "distance")
    if frequent_neighbors.slot_share <= MATERIAL:  # the usual case, in which no Gaussian cloud is drawn
        return None
    gaussian = _largest_gaussian_share(examined)
    excess_hubs = _describe_hubs(neighbors, rows[shares > max(MATERIAL, GAUSSIAN_FACTOR * gaussian)], "distance")
    count = len(excess_hubs.rows)
    if excess_hubs.slot_share <= MATERIAL or count > max(1, MAX_SHARE * cloud.n):
        return None
    hub_rows = torch.from_numpy(excess_hubs.rows)
    angle_share = _describe_hubs(examined.nearest(Similarity.COSINE), hub_rows, "angle").slot_share
    uses_distance = cloud.similarity is Similarity.EUCLIDEAN
    # The effect is on the neighbors by the similarity in use.
    slot_share = excess_hubs.slot_share if uses_distance else angle_share
    effect, severity = judge([neighbors_kept_effect(1 - slot_share)], cloud.d)
    subject = "1 row is a neighbor" if count == 1 else f"{count:,} rows are neighbors"
    return Defect(
        slug="hubs",
        severity=severity if uses_distance else Severity.NOTE,
        title=f"By Euclidean distance {subject} of {percent(excess_hubs.row_share)} of all rows",
        evidence=(
            f"The largest hub is among the {NEAREST} nearest of {percent(float(shares.max()))} of the rows. In a "
            f"Gaussian cloud of the same variances no row is near to more than {percent(gaussian)}. "
            f"{'It takes' if count == 1 else 'They take'} {percent(excess_hubs.slot_share)} of the neighbor slots by "
            f"distance, and {percent(angle_share)} by angle about the mean: by distance short rows are near to all "
            "others."
        ),
        effect=effect,
        rows=excess_hubs.rows,
        remaining=examined.without_rows(excess_hubs.rows) if uses_distance else None,
        advice=FINDINGS["hubs"].advice_by_distance,
    )


def _largest_gaussian_share(examined: ExaminedCloud) -> float:
    """Return the share of rows that the largest hub by distance has in a Gaussian cloud of the same variances."""
    cloud = examined.cloud
    scales = eigenvalues(cloud.moments.covariance(), cloud.n - 1).clamp(min=0).sqrt().float()
    n = min(cloud.n, GAUSSIAN_ROWS)
    generator = torch.Generator().manual_seed(SEED)
    points = torch.randn(n, cloud.d, generator=generator) * scales
    positions = torch.arange(n)
    neighbors = find_nearest(points[:QUERIES], positions[:QUERIES], [(points, positions)], Similarity.EUCLIDEAN)
    return float(neighbors.shares()[1].max())
