"""The 10 nearest of a sample of rows among all: who is among them how often, and how many a change leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from isotropy.cosine import unit_rows

NEAREST = 10
"""Neighbors of each row that are looked at."""

QUERIES = 1000
"""Rows whose neighbors are found."""

REFERENCE_ROWS = 4096
"""Rows compared with all queries at once."""

Similarity = Literal["cosine", "euclidean", "dot"]


class Nearest(NamedTuple):
    """The nearest rows to each of some rows, among all that were given."""

    places: Tensor
    """[queries, at most ``NEAREST``] int64."""

    def shares(self) -> tuple[Tensor, Tensor]:
        """Return the rows that are among the nearest of any, by place, and of which share of the queries."""
        rows, counts = torch.unique(self.places, return_counts=True)
        return rows, counts / max(len(self.places), 1)


def nearest(
    queries: Tensor, places: Tensor, chunks: Iterable[tuple[Tensor, Tensor]], similarity: Similarity
) -> Nearest:
    """Return the nearest rows to each of some, in float32; a row is not its own neighbor.

    Args:
        queries: [q, d], already centered where they lie far from the origin.
        places: [q], of the queries among all rows.
        chunks: all rows [m, d], and their places [m].
        similarity: by which they are near.

    """
    q = _ready(queries, similarity)
    best, at = q.new_empty(len(q), 0), places.new_empty(len(q), 0)
    for rows, own in chunks:
        for start in range(0, len(rows), REFERENCE_ROWS):
            part, here = _ready(rows[start : start + REFERENCE_ROWS], similarity), own[start : start + REFERENCE_ROWS]
            near = q @ part.T
            if similarity == "euclidean":
                near -= part.square().sum(1) / 2
            near.masked_fill_(places[:, None] == here, -torch.inf)
            near, here = torch.cat([best, near], 1), torch.cat([at, here.expand(len(q), -1)], 1)
            best, order = near.topk(min(NEAREST, near.shape[1]))
            at = here.gather(1, order)
    return Nearest(at)


def overlap(before: Tensor, after: Tensor, queries: int, similarity: Similarity = "cosine") -> tuple[float, float]:
    """Return which share of the 10 nearest by cosine are kept on average, and its standard error over the queries.

    Args:
        before: [n, d].
        after: [n, any], the same rows.
        queries: rows whose neighbors are compared, the first.
        similarity: after the change.

    """
    places = torch.arange(len(before))
    q = places[:queries]
    old = nearest(before[:queries], q, [(before, places)], "cosine").places
    new = nearest(after[:queries], q, [(after, places)], similarity).places
    if old.shape[1] == 0:
        return 1.0, 0.0
    kept = (old[:, :, None] == new[:, None, :]).any(2).double().mean(1)
    return float(kept.mean()), float(kept.std(correction=0) / max(len(kept), 1) ** 0.5)


def _ready(x: Tensor, similarity: Similarity) -> Tensor:
    return unit_rows(x.float()) if similarity == "cosine" else x.float()
