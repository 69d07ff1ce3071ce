"""The 10 nearest neighbors of sampled rows: how often each row is among them, and how many a change keeps."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from isotropy.catalog import Similarity
from isotropy.cosine import unit_rows

NEAREST = 10  # Neighbors of each row that are compared
QUERIES = 1000  # Rows whose neighbors are found
ROWS_PER_BLOCK = 4096  # Rows compared with all queries at once
MAX_MULTIPLE = 1e15  # Multiple of the typical row size at which rows are clamped, because larger squares leave float32
# Maximum distance of copies, relative to the usual distance of directions from their mean. Rounding of float32, and
# mostly of float16, is smaller.
COPY_DISTANCE = 3e-4
COMPARED_AT_ONCE = 2**21  # Numbers of neighbors that are compared with each other at once: 8 MiB in float32


class NearestRows(NamedTuple):
    """The nearest rows of each query."""

    neighbors: Tensor  # [queries, at most `NEAREST`] int64

    def shares(self) -> tuple[Tensor, Tensor]:
        """Return the rows that occur as neighbors, and the share of queries for which each does."""
        rows, counts = torch.unique(self.neighbors, return_counts=True)
        return rows, counts / max(len(self.neighbors), 1)


def find_nearest(
    queries: Tensor, query_positions: Tensor, chunks: Iterable[tuple[Tensor, Tensor]], similarity: Similarity
) -> NearestRows:
    """Return the nearest rows of queries [q, d] at ``query_positions`` [q], excluding themselves.

    ``chunks`` yields all rows [m, d] with their positions [m]. Rows are multiplied in float32, after a common center is
    subtracted, so that neither a distant mean nor huge numbers cost digits.
    """
    q = queries.double()
    q = unit_rows(q) if similarity == Similarity.COSINE else q
    largest = float(q.abs().amax()) if q.numel() else 0.0
    # The median, because one huge row would move the mean.
    center = q.median(0).values if len(q) else q.new_zeros(q.shape[1])
    q = q if similarity == Similarity.DOT else q - center
    size = float(q.abs().amax(1).median()) if q.numel() else 0.0
    scale = size or largest or 1.0
    prepared = (q / scale).clamp(-MAX_MULTIPLE, MAX_MULTIPLE).float()
    center = center / scale
    best, best_positions = torch.empty(len(queries), 0), query_positions.new_empty(len(queries), 0)
    for rows, positions in chunks:
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            block, block_positions = rows[start : start + ROWS_PER_BLOCK], positions[start : start + ROWS_PER_BLOCK]
            # Keys sort rows by similarity to each query.
            x = unit_rows(block.double()) if similarity == Similarity.COSINE else block.double()
            centered = (x / scale - center).clamp(-MAX_MULTIPLE, MAX_MULTIPLE)
            keys = prepared @ centered.float().T
            if similarity == Similarity.EUCLIDEAN:
                keys -= (centered.square().sum(1) / 2).float()
            elif similarity == Similarity.COSINE:
                # q.x = (q - c).(x - c) + x.c + terms that depend only on q.
                keys += (centered @ center).float()
            keys.masked_fill_(query_positions[:, None] == block_positions, -torch.inf)
            keys, block_positions = torch.cat([best, keys], 1), block_positions.expand(len(queries), -1)
            best, order = keys.topk(min(NEAREST, keys.shape[1]))
            best_positions = torch.cat([best_positions, block_positions], 1).gather(1, order)
    return NearestRows(best_positions)


def mean_overlap(
    before: Tensor, after: Tensor, queries: int, similarity: Similarity = Similarity.COSINE
) -> tuple[float, float]:
    """Return the mean share of the 10 nearest by cosine that the first ``queries`` rows keep, and its standard error.

    ``before`` is [n, d], ``after`` [n, e]; ``similarity`` is the one used after the change.
    """
    shares = kept_neighbor_shares(before, after, torch.arange(min(queries, len(before))), similarity)
    return float(shares.mean()), float(shares.std(correction=0) / max(len(shares), 1) ** 0.5)


def kept_neighbor_shares(
    before: Tensor,
    after: Tensor,
    queries: Tensor,
    similarity: Similarity = Similarity.COSINE,
    references: int | None = None,
) -> Tensor:
    """Return, for each query, the share [q] of its 10 nearest by cosine that are its nearest by ``similarity`` after.

    ``before`` is [n, d], ``after`` [n, e], ``queries`` [q] are positions; neighbors are searched among the first
    ``references`` rows, or all if it is None. Copies up to rounding are interchangeable.
    """
    positions = torch.arange(len(before))[:references]
    chunks = [(before[positions], positions)]
    neighbors_before = find_nearest(before[queries], queries, chunks, Similarity.COSINE).neighbors
    neighbors_after = find_nearest(after[queries], queries, [(after[positions], positions)], similarity).neighbors
    if neighbors_before.shape[1] == 0:
        return torch.ones(1, dtype=torch.float64)
    is_same = neighbors_before[:, :, None] == neighbors_after[:, None, :]
    if similarity == Similarity.COSINE and not bool(is_same.any(2).all()):
        is_same |= _copy_mask(before[positions], neighbors_before, neighbors_after) & _copy_mask(
            after[positions], neighbors_before, neighbors_after
        )
    return torch.minimum(is_same.any(2).sum(1), is_same.any(1).sum(1)).double() / neighbors_before.shape[1]


def _copy_mask(x: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Return a mask [q, k, k] of neighbor pairs (old[i, a], new[i, b]) with the same direction."""
    units = unit_rows(x.double())
    units -= units.mean(0)
    size = float(units.square().sum(1).mean().sqrt())
    units = (units / (size or 1.0)).float()
    step = max(1, COMPARED_AT_ONCE // (units.shape[1] * old.shape[1]))
    copy_masks = [
        torch.cdist(units[old_rows], units[new_rows], compute_mode="donot_use_mm_for_euclid_dist") <= COPY_DISTANCE
        for old_rows, new_rows in zip(torch.split(old, step), torch.split(new, step), strict=True)
    ]
    return torch.cat(copy_masks)
