"""Uniformity of directions on the sphere (Wang & Isola 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from isotropy.cosine import unit_rows
from isotropy.points import at_least_float32, require_points
from isotropy.score import Score, there_are
from isotropy.spectrum import CHUNK_ROWS

T = 2
"""Sharpness of the Gaussian kernel, as in the paper and its code."""

TILE_ROWS = 1024
"""Rows whose pairs with as many others are held at once: 4 MB in float32."""


def uniformity(x: Tensor) -> Score:
    """Return the log of the mean of exp(-2 ||u - v||^2) over pairs of rows of points [n, d] scaled to length 1.

    In [-8, 0]: 0 if all point the same way, about -4 + 8 / d if they are spread evenly over a sphere of many
    dimensions. Exact over all pairs i < j; rows of zeros, which have no direction, are left out. Undefined for fewer
    than two others, and for NaN or infinity.

    The products are made in the dtype of the points, but at least float32.

    Raises:
        ValueError: ``x`` is not a floating tensor [n, d].

    """
    require_points(x)
    x = x.detach()
    present = x.any(dim=1)
    if not present.all():
        x = x[present]
    n = len(x)
    if n < 2:
        return Score.undefined(f"Uniformity needs at least 2 rows that are not zero; {there_are(n)}.")
    a, halves = _centred_directions(x)
    if not halves.isfinite().all():
        return Score.undefined("Uniformity is not finite: some points are NaN or infinite.")

    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for i in range(0, n, TILE_ROWS):
        rows = slice(i, i + TILE_ROWS)
        for j in range(i, n, TILE_ROWS):
            columns = slice(j, j + TILE_ROWS)
            exponents = torch.addmm(halves[columns], a[rows], a[columns].T).add_(halves[rows, None])
            if i == j:
                exponents.triu_(1)  # the rest adds exp(0) - 1
            # Of exp - 1, as exp alone would keep no digits of what tells a narrow cone from a single direction.
            total += exponents.expm1_().sum(dtype=torch.float64)
    return Score.within(math.log1p(float(total) / (n * (n - 1) / 2)), -4 * T, 0)


def _centred_directions(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a [n, d] and h = -||a||^2 / 2 [n] such that a_i.a_j + h_i + h_j is -2 ||u_i - u_j||^2 of directions u.

    Here a is 2 (u - mean u), made in float64: in a narrow cone the distances are far smaller than the directions.
    """
    mean = torch.stack([units.sum(0) for units in _unit_chunks(x)]).sum(0) / len(x)
    a = at_least_float32(torch.empty_like(x))
    halves = a.new_empty(len(x))
    start = 0
    for units in _unit_chunks(x):
        chunk = slice(start, start + len(units))
        centred = (units - mean) * math.sqrt(2 * T)
        a[chunk], halves[chunk] = centred, centred.square().sum(1) / -2
        start += len(units)
    return a, halves


def _unit_chunks(x: Tensor) -> Iterator[Tensor]:
    for start in range(0, len(x), CHUNK_ROWS):
        yield unit_rows(x[start : start + CHUNK_ROWS].double())
