"""Rows that are copies up to rounding, such as one vector in float32 and in float16, or of two batches.

Distances are looked at in 16 random directions, which keep them to about a fifth (Johnson & Lindenstrauss 1984). A copy
is nearer than rounding makes of a row. Rows may also be as near by nature, on a curve or in few dimensions; then more
are a little farther apart, while around copies there is nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.findings.examined import REFERENCE_ROWS, Examined
from isotropy.rows import kept_rows

ROUNDING = 5e-3
"""Distance of copies at most, over the length of a row and over the usual distance of rows: bfloat16 rounds less."""

APART = 4.0
"""How many times as far there are hardly more rows with a neighbor than there are copies."""

CLEAR = 0.8
"""Part of the rows with a neighbor so near that are copies at least."""

MOST = 0.9
"""Share of repeats among the rows beyond which they have collapsed to a few, and are no copies."""

DIRECTIONS = 16

LINKED = 10
"""Copies of a row that are looked at to find all of one group."""

SEED = 0


def near_copies(examined: Examined, distinct: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of each of the given rows, int64 [as many], below 0 for rows without a copy.

    Args:
        examined: the cloud; of more than ``REFERENCE_ROWS`` rows none is sought.
        distinct: places of rows, in order, without exact copies.

    """
    from scipy.sparse import coo_array  # noqa: PLC0415 - slow to import, as the next two
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415
    from scipy.spatial import KDTree  # noqa: PLC0415

    groups = np.full(len(distinct), -1)
    if not 2 <= len(distinct) <= REFERENCE_ROWS:
        return groups
    points, lengths = _projected(examined, distinct)
    order = np.random.default_rng(SEED).permutation(len(points))
    usual = float(np.median(np.linalg.norm(points[order[1:]] - points[order[:-1]], axis=1)))
    if usual == 0:
        return groups
    nearest = KDTree(points).query(points, k=2, distance_upper_bound=APART * ROUNDING * usual)[0][:, 1]
    own = nearest <= ROUNDING * np.minimum(lengths, usual)
    if not own.any() or own.sum() < CLEAR * np.isfinite(nearest).sum():
        return groups
    copies = points[own]
    near, at = KDTree(copies).query(copies, k=min(LINKED + 1, len(copies)), distance_upper_bound=ROUNDING * usual)
    one, other = np.isfinite(near).nonzero()[0], at[np.isfinite(near)]
    links = coo_array((np.ones(len(one)), (one, other)), shape=(len(copies), len(copies)))
    count, found = connected_components(links, directed=False)
    if len(copies) - count <= MOST * len(points):
        groups[own] = found
    return groups


def _projected(examined: Examined, distinct: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rows less the mean in random directions, [m, ``DIRECTIONS``], and their lengths in the file, [m]."""
    cloud = examined.cloud
    random = torch.Generator().manual_seed(SEED)
    directions = torch.randn(cloud.d, DIRECTIONS, dtype=torch.float64, generator=random) / DIRECTIONS**0.5
    points, lengths = [], []
    for kept, places, _ in kept_rows(cloud.points):
        x = kept[torch.from_numpy(np.isin(places, distinct))].double()
        points.append(((x - cloud.moments.mean) @ directions).numpy())
        lengths.append(torch.linalg.vector_norm(x, dim=1).numpy())
    return np.concatenate(points), np.concatenate(lengths)
