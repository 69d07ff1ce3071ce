"""Rows that are near to each other only, or to no row: from another model, or with dimensions in another order.

The graph of nearest neighbors falls apart at such rows (spectral bisection, Shi & Malik 2000). It does so between
clusters too, but those share directions (``isotropy.findings.directions``). Rows whose dimensions are shuffled, each in
its own way, have neighbors no nearer than the same rows shuffled once more, nor do they vary in the directions of the
others. Rows between clusters may be as far, but vary in those directions.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy.cosine import unit_rows
from isotropy.findings.directions import are_unrelated, cosines_to_others, fit_like_shuffled, local_relation
from isotropy.findings.finding import FEWEST_DIMENSIONS, Defect, ExaminedCloud, Severity, judge, percent, score_effects
from isotropy.findings.mixed_clouds import FEWEST_IN_A_PART, FEWEST_ROWS, MAX_PARTS, MIN_SEPARATION, cut_projection
from isotropy.findings.nearest import NEAREST

ROWS = 2000  # Rows of the sample whose graph is cut
EIGENVECTORS = 3  # Eigenvectors of the graph that are cut
ITERATIONS = 100
SEED = 0
SHUFFLED = 0.999  # Point of the nearness of shuffled rows up to which a row is no nearer to others
MAX_STRAYS = 0.25  # Share of such rows beyond which most rows are near to no other by nature
CLEAR = 2.0  # They are at least so many times as many as rows a little nearer, within twice that point


def unrelated_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows outside the largest of two to four parts with unrelated directions, or rows near to no other."""
    cloud = examined.cloud
    if not examined.has_spread or examined.effective_directions < FEWEST_DIMENSIONS:
        return None
    mean = cloud.moments.mean
    units = unit_rows(examined.sample[:ROWS] - mean).float()
    parts = sorted(_unrelated_parts(units), key=len, reverse=True)
    by_part = 2 <= len(parts) <= MAX_PARTS
    nearness = None if by_part else _nearness_of_strays(units)
    if not by_part and nearness is None:
        return None
    part_of = torch.zeros(len(units), dtype=torch.int64)
    for number, sample_rows in enumerate(parts):
        part_of[sample_rows] = number
    positions_by_chunk = []
    for rows, positions in examined.reference_rows():
        near = unit_rows(rows.double() - mean).float() @ units.T
        near[positions[:, None] == cloud.rows[: len(units)]] = -torch.inf
        values, neighbors = near.topk(NEAREST)
        if nearness is not None:
            is_unrelated = values.mean(1) <= nearness
        else:  # most of the neighbors in the sample are of another part
            votes = torch.nn.functional.one_hot(part_of[neighbors], len(parts)).sum(1)
            is_unrelated = votes.argmax(1) > 0
        positions_by_chunk.append(positions[is_unrelated].numpy())
    unrelated_positions = np.sort(np.concatenate(positions_by_chunk))
    remaining = examined.without_rows(unrelated_positions)
    count = len(unrelated_positions)
    if nearness is None:
        correlation = local_relation(*(units[sample_rows] for sample_rows in parts[:2])).correlation
        evidence = (
            "They are near to each other and to no other row. The directions in which nearest neighbors differ have a "
            f"correlation of {correlation:.2f} with those of the other rows, as after a random rotation or permutation "
            "of the dimensions. In one cloud it is near 1."
        )
    else:
        evidence = (
            f"Their {NEAREST} nearest neighbors have a mean cosine of at most {nearness:.2f}, no more than after "
            "shuffling their dimensions once more. Hardly any other row is that far from all others."
        )
    return Defect(
        slug="unrelated_rows",
        severity=Severity.WARNING,
        title=f"{count:,} rows ({percent(count / cloud.n)}) have other directions than the rest",
        evidence=evidence,
        effect=judge(score_effects(cloud, remaining.cloud), cloud.d)[0],
        rows=unrelated_positions,
        remaining=remaining,
    )


def _unrelated_parts(units: Tensor) -> list[Tensor]:
    """Return positions of the parts of unit rows [n, d]; stops above ``MAX_PARTS``."""
    parts: list[Tensor] = []
    waiting = [torch.arange(len(units))]
    while waiting and len(waiting) + len(parts) <= MAX_PARTS:
        rows = waiting.pop()
        upper = _bisect(units[rows]) if len(rows) >= FEWEST_ROWS else None
        if upper is None:
            parts.append(rows)
        else:
            waiting += [rows[upper], rows[~upper]]
    return parts + waiting


def _bisect(units: Tensor) -> Tensor | None:
    """Return a mask [n] of one of two parts of unit rows [n, d] with unrelated directions, or None."""
    neighbors = cosines_to_others(units, units).topk(NEAREST).indices
    for eigenvector in _graph_eigenvectors(neighbors).T:
        # A few rows far out on an eigenvector would hide the others.
        p = eigenvector.clamp(*eigenvector.quantile(torch.tensor([0.01, 0.99], dtype=torch.float64)).tolist())
        cut = cut_projection(p, FEWEST_IN_A_PART)
        if cut is None or cut.separation < MIN_SEPARATION:
            continue
        upper: Tensor = eigenvector > cut.threshold
        upper = upper[neighbors].sum(1) * 2 + upper > NEAREST
        if min(int(upper.sum()), int((~upper).sum())) < FEWEST_IN_A_PART:
            continue
        if are_unrelated(units[upper], units[~upper]):
            return upper
    return None


def _graph_eigenvectors(neighbors: Tensor) -> Tensor:
    """Return the leading nontrivial eigenvectors [n, r] of the random walk on the graph of neighbors [n, k]."""
    from scipy.sparse import coo_array, diags_array  # noqa: PLC0415 - slow to import

    n, k = neighbors.shape
    edges = (np.ones(n * k), (np.repeat(np.arange(n), k), neighbors.flatten().numpy()))
    adjacency = coo_array(edges, shape=(n, n)).tocsr()
    adjacency = adjacency + adjacency.T
    roots = np.sqrt(adjacency.sum(1))
    walk = diags_array(1 / roots) @ adjacency @ diags_array(1 / roots)
    vectors = np.random.default_rng(SEED).standard_normal((n, EIGENVECTORS + 1))
    vectors[:, 0] = roots
    for _ in range(ITERATIONS):
        vectors = np.linalg.qr(vectors + walk @ vectors)[0]
    order = np.linalg.eigh(vectors.T @ (walk @ vectors))[1][:, ::-1]
    return torch.from_numpy((vectors @ order / roots[:, None])[:, 1:])


def _nearness_of_strays(units: Tensor) -> float | None:
    """Return the mean cosine of neighbors up to which rows of units [n, d] stray; None if none or many do."""
    order = torch.rand(units.shape, generator=torch.Generator().manual_seed(SEED)).argsort(1)
    shuffled = units.gather(1, order)
    nearness, by_chance = (cosines_to_others(rows, units).topk(NEAREST).values.mean(1) for rows in (units, shuffled))
    at_most = float(by_chance.double().quantile(SHUFFLED))
    is_stray = nearness <= at_most
    strays = int(is_stray.sum())
    between = int((nearness <= 2 * at_most - float(by_chance.median())).sum()) - strays
    is_clear = FEWEST_IN_A_PART <= strays <= MAX_STRAYS * len(units) and strays >= CLEAR * between
    if not is_clear or not fit_like_shuffled(units[is_stray], shuffled[is_stray], units[~is_stray]):
        return None
    return at_most
