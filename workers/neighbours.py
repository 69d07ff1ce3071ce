"""Nearest neighbours by name, before and after a map: what it does to meaning, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from isotropy.catalog import METHODS
from isotropy.cloud import Cloud
from isotropy.points import at_least_float32
from isotropy.postprocess.methods import fit

K = 8
REPORT_QUERIES = 200
"""Names that can be looked up in a report: some 230 kB, of which no other part of the page is made."""
REPORT_METHOD = "all_but_the_top"
BLOCK_ROWS = 64


def named_neighbours(
    names: Sequence[str], before: Tensor, after: Tensor, queries: Tensor, k: int = K
) -> list[dict[str, Any]]:
    """Return the k rows nearest by cosine to each of some rows, before and after.

    Args:
        names: of the rows, n of them.
        before: [n, d] floating.
        after: the same rows mapped, [n, any].
        queries: rows to look up, int64 [m].
        k: neighbours of each; fewer where there are fewer rows.

    Returns:
        One ``{"name", "before": [{"name", "cosine"}], "after": [...]}`` a query, nearest first. A row is not its own
        neighbour. Rows of zeros have no direction: they are nobody's neighbours and have none.

    """
    sides = [_nearest(x, queries, k) for x in (before, after)]
    return [
        {"name": names[query], "before": _named(names, first), "after": _named(names, second)}
        for query, first, second in zip(queries.tolist(), *sides, strict=True)
    ]


def neighbours_data(cloud: Cloud, names: Sequence[str] | None, seed: int) -> dict[str, Any] | None:
    """Return the neighbours of a report: of some named rows as they are, and less mean and top components.

    Args:
        cloud: the points; neighbours are sought among ``cloud.pairs``, on which All-but-the-Top is fitted too.
        names: of the rows of ``cloud.pairs``; None where they have none.
        seed: draws the rows that are looked up.

    Returns:
        As ``FigureData`` has "neighbours"; None without names, with fewer than two rows that have a direction, or
        where squares of the points leave float64, so that there are no components to remove.

    """
    x = cloud.pairs
    own = names or []
    shuffled = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    queries = first_named(own, x, shuffled, REPORT_QUERIES) if own else shuffled[:0]
    if len(queries) < 2:
        return None
    parameters = report_parameters(cloud.d)
    try:
        after = fit(REPORT_METHOD, x, **parameters).apply(x)
    except ValueError:
        return None
    of = named_neighbours(own, x, after, queries)
    return {"k": K, "rows": len(x), "method": REPORT_METHOD, "parameters": parameters, "of": of}


def report_parameters(d: int) -> dict[str, Any]:
    """Return the parameters of the report's method for points of d dimensions."""
    return {"D": METHODS[REPORT_METHOD].parameters[0].default_for(d)}


def directions(x: Tensor) -> Tensor:
    """Return rows [n, d] at length 1, in float32 or wider; those of zeros are NaN."""
    wide = at_least_float32(x)
    # Over the greatest entry first, so that no square leaves the range of the dtype.
    return torch.nn.functional.normalize(wide / wide.abs().amax(dim=1, keepdim=True), dim=1)


def first_named(names: Sequence[str], x: Tensor, order: Tensor, most: int) -> Tensor:
    """Return the first rows in an order that have a direction and a name that none before has, int64 [at most most]."""
    directed = x.any(dim=1)
    chosen: dict[str, int] = {}
    for row in order.tolist():
        if len(chosen) == most:
            break
        if names[row] and directed[row]:
            chosen.setdefault(names[row], row)
    return torch.tensor(list(chosen.values()), dtype=torch.int64)


def _nearest(x: Tensor, queries: Tensor, k: int) -> list[list[tuple[int, float]]]:
    """Rows and cosines of the k nearest to each query."""
    unit = directions(x)
    found = []
    for rows in torch.split(queries, BLOCK_ROWS):
        cosines = unit[rows] @ unit.T
        cosines[torch.arange(len(rows)), rows] = torch.nan
        # Of rows of zeros, which are 0 / 0 by now, and of the query itself.
        cosines = cosines.nan_to_num(-torch.inf)
        values, nearest = cosines.topk(min(k, len(x)), dim=1)
        found += [
            [(row, cosine) for row, cosine in zip(*pair, strict=True) if cosine > -torch.inf]
            for pair in zip(nearest.tolist(), values.clamp(max=1).tolist(), strict=True)
        ]
    return found


def _named(names: Sequence[str], nearest: list[tuple[int, float]]) -> list[dict[str, Any]]:
    return [{"name": names[row], "cosine": cosine} for row, cosine in nearest]
