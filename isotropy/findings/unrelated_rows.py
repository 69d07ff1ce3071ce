"""Rows that are near to each other only, or to no row: from another model, or with dimensions in another order.

The graph of nearest neighbors falls apart at such rows (spectral bisection, Shi & Malik 2000). It does so between
clusters too, but those share directions (``isotropy.findings.directions``). If the dimensions of each row are shuffled
differently, rows are no nearer to their neighbors than after another shuffle, and they do not vary in the directions of
the other rows. Rows between clusters may be as far from their neighbors, but vary in those directions.
"""

import numpy as np
import torch
from torch import Tensor

from isotropy.cosine import unit_rows
from isotropy.findings.directions import are_unrelated, cosines_to_others, local_relation, vary_like_shuffled
from isotropy.findings.finding import FEWEST_DIMENSIONS, Defect, ExaminedCloud, Severity, judge, percent, score_effects
from isotropy.findings.mixed_clouds import FEWEST_IN_A_PART, FEWEST_ROWS, MAX_PARTS, MIN_SEPARATION, cut_projection
from isotropy.findings.nearest import NEAREST

ROWS = 2000  # Rows of the sample whose graph is cut
EIGENVECTORS = 3  # Eigenvectors of the graph that are cut
ITERATIONS = 100
SEED = 0
STRAY_QUANTILE = 0.999  # Quantile of the mean cosines of shuffled rows up to which a row is a stray
MAX_STRAYS = 0.25  # Maximum share of strays; with more, the cloud is just too sparse for near neighbors
# Minimum ratio of strays to rows above the limit of strays by at most the limit's distance to the median of chance.
MIN_STRAY_RATIO = 2.0


def unrelated_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows of smaller parts whose directions are unrelated to the others, or rows near to no other."""
    cloud = examined.cloud
    if not examined.has_spread or examined.effective_directions < FEWEST_DIMENSIONS:
        return None
    mean = cloud.moments.mean
    units = unit_rows(examined.sample[:ROWS] - mean).float()
    parts = sorted(_unrelated_parts(units), key=len, reverse=True)
    has_parts = 2 <= len(parts) <= MAX_PARTS
    max_stray_cosine = None if has_parts else _find_max_stray_cosine(units)
    if not has_parts and max_stray_cosine is None:
        return None
    part_numbers = torch.zeros(len(units), dtype=torch.int64)
    for number, sample_rows in enumerate(parts):
        part_numbers[sample_rows] = number
    positions_by_chunk = []
    for rows, positions in examined.reference_rows():
        cosines = unit_rows(rows.double() - mean).float() @ units.T
        cosines[positions[:, None] == cloud.rows[: len(units)]] = -torch.inf
        nearest_cosines, neighbors = cosines.topk(NEAREST)
        if max_stray_cosine is not None:
            is_unrelated = nearest_cosines.mean(1) <= max_stray_cosine
        else:  # most of the neighbors in the sample are of another part
            votes = torch.nn.functional.one_hot(part_numbers[neighbors], len(parts)).sum(1)
            is_unrelated = votes.argmax(1) > 0
        positions_by_chunk.append(positions[is_unrelated].numpy())
    unrelated_positions = np.sort(np.concatenate(positions_by_chunk))
    remaining = examined.without_rows(unrelated_positions)
    count = len(unrelated_positions)
    if max_stray_cosine is None:
        correlation = local_relation(*(units[sample_rows] for sample_rows in parts[:2])).correlation
        evidence = (
            "They are near to each other and to no other row. The directions in which nearest neighbors differ have a "
            f"correlation of {correlation:.2f} with those of the other rows, as after a random rotation or permutation "
            "of the dimensions. In one cloud it is near 1."
        )
    else:
        evidence = (
            f"Their {NEAREST} nearest neighbors have a mean cosine of at most {max_stray_cosine:.2f}, no more than "
            "after shuffling their dimensions again. Hardly any other row is that far from all others."
        )
    return Defect(
        slug="unrelated_rows",
        severity=Severity.WARNING,
        title=f"{count:,} rows ({percent(count / cloud.n)}) use different directions than the rest",
        evidence=evidence,
        effect=judge(score_effects(cloud, remaining.cloud), cloud.d)[0],
        rows=unrelated_positions,
        remaining=remaining,
    )


def _unrelated_parts(units: Tensor) -> list[Tensor]:
    """Return the row positions of each part of unit rows [n, d]; stops above ``MAX_PARTS`` parts."""
    parts: list[Tensor] = []
    unsplit_parts = [torch.arange(len(units))]
    while unsplit_parts and len(unsplit_parts) + len(parts) <= MAX_PARTS:
        rows = unsplit_parts.pop()
        is_upper = _bisect(units[rows]) if len(rows) >= FEWEST_ROWS else None
        if is_upper is None:
            parts.append(rows)
        else:
            unsplit_parts += [rows[is_upper], rows[~is_upper]]
    return parts + unsplit_parts


def _bisect(units: Tensor) -> Tensor | None:
    """Return a mask [n] of one of two parts of unit rows [n, d] with unrelated directions, or None."""
    neighbors = cosines_to_others(units, units).topk(NEAREST).indices
    for eigenvector in _graph_eigenvectors(neighbors).T:
        # A few rows far out on an eigenvector would hide the others.
        p = eigenvector.clamp(*eigenvector.quantile(torch.tensor([0.01, 0.99], dtype=torch.float64)).tolist())
        cut = cut_projection(p, FEWEST_IN_A_PART)
        if cut is None or cut.separation < MIN_SEPARATION:
            continue
        is_upper: Tensor = eigenvector > cut.threshold
        # Follow the majority of the neighbors; the row itself breaks ties.
        is_upper = is_upper[neighbors].sum(1) * 2 + is_upper > NEAREST
        if min(int(is_upper.sum()), int((~is_upper).sum())) < FEWEST_IN_A_PART:
            continue
        if are_unrelated(units[is_upper], units[~is_upper]):
            return is_upper
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


def _find_max_stray_cosine(units: Tensor) -> float | None:
    """Return the mean cosine with neighbors up to which unit rows [n, d] are strays; None if strays are unclear."""
    order = torch.rand(units.shape, generator=torch.Generator().manual_seed(SEED)).argsort(1)
    shuffled = units.gather(1, order)
    cosines, chance = (cosines_to_others(rows, units).topk(NEAREST).values.mean(1) for rows in (units, shuffled))
    max_stray_cosine = float(chance.double().quantile(STRAY_QUANTILE))
    is_stray = cosines <= max_stray_cosine
    n_strays = int(is_stray.sum())
    n_between = int((cosines <= 2 * max_stray_cosine - float(chance.median())).sum()) - n_strays
    is_clear = FEWEST_IN_A_PART <= n_strays <= MAX_STRAYS * len(units) and n_strays >= MIN_STRAY_RATIO * n_between
    if not is_clear or not vary_like_shuffled(units[is_stray], shuffled[is_stray], units[~is_stray]):
        return None
    return max_stray_cosine
