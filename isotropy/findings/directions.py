"""Whether two sets of rows use unrelated directions: rows of another model, or with dimensions in another order.

Clusters of one model share the directions in which nearest neighbors differ; after a rotation or permutation of the
dimensions they share none. The covariances of these differences, each without its trace, have a correlation of 1 in two
parts of one cloud, and of about 0 after a random rotation.
"""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

# A random permutation of d dimensions has a correlation of 0 with a standard error of 1 / sqrt(d).
STANDARD_ERRORS = 2.0
DIVISIONS = 10  # Random divisions of all differences; if even their directions look unrelated, there are too few rows
SEED = 0
# By chance half of the rows fit better than when shuffled; the allowed excess over a half is this many standard errors.
SHUFFLED_ERRORS = 3.0
MAX_ISOTROPIC_VARIATION = 12.0  # About three standard errors, times n, of that of n differences in isotropic clouds
MAX_CORRELATION = 0.25  # Absolute correlation, for few dimensions
# Squared coefficient of variation of the local variances: below it, neighbors differ equally in all directions.
MIN_VARIATION = 0.1
# Ratio of these coefficients in two sets of rows, 1 after a rotation or permutation. Neighbors are few, so allow more.
MAX_RATIO = 2.0
MAX_LOCAL_RATIO = 4.0


class DirectionRelation(NamedTuple):
    """How the covariances of two sets of rows are related, each without its trace."""

    correlation: float
    smaller_variation: float  # The smaller squared coefficient of variation of their eigenvalues
    ratio: float  # The larger of the two over the smaller


def are_unrelated(first: Tensor, second: Tensor) -> bool:
    """Return whether two sets of unit rows [any, d] have unrelated directions but similar spectra, as if rotated."""
    limit = min(MAX_CORRELATION, STANDARD_ERRORS / first.shape[1] ** 0.5)
    differences = [_neighbor_differences(units) for units in (first, second)]
    local = _relation_of(*differences)
    if abs(local.correlation) > limit or local.smaller_variation < MIN_VARIATION or local.ratio > MAX_LOCAL_RATIO:
        return False
    if _vary_equally(first) and _vary_equally(second):
        return False
    divisions = _relate_random_divisions(torch.cat(differences), len(differences[0]))
    if any(relation.correlation <= 2 * limit for relation in divisions):
        return False
    spread = _relation_of(first - first.mean(0), second - second.mean(0))
    # If each row is permuted differently, rows vary equally in all directions.
    return spread.smaller_variation < MIN_VARIATION or (abs(spread.correlation) <= limit and spread.ratio <= MAX_RATIO)


def _vary_equally(units: Tensor) -> bool:
    """Return whether unit rows [n, d] may differ from their nearest other rows equally in all directions."""
    ends = torch.stack([torch.arange(len(units)), cosines_to_others(units, units).argmax(1)])
    differences = torch.nn.functional.normalize(units - units[ends[1]])
    # Differences that share a row, such as a hub, look alike.
    shares_row = (ends[:, None, :, None] == ends[:, None]).flatten(0, 1).any(0)
    squared_cosines = (differences @ differences.T).square()[~shares_row]
    return bool(units.shape[1] * squared_cosines.mean() <= 1 + MAX_ISOTROPIC_VARIATION / len(units))


def local_relation(first: Tensor, second: Tensor) -> DirectionRelation:
    """Return the relation of the directions in which nearest neighbors differ, in two sets of unit rows [any, d]."""
    return _relation_of(_neighbor_differences(first), _neighbor_differences(second))


def _relate_random_divisions(differences: Tensor, n_first: int) -> Iterator[DirectionRelation]:
    """Yield the relation between ``n_first`` random rows of differences [m, d] and the others, ``DIVISIONS`` times."""
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(DIVISIONS):
        order = torch.randperm(len(differences), generator=generator)
        yield _relation_of(differences[order[:n_first]], differences[order[n_first:]])


def vary_like_shuffled(rows: Tensor, shuffled: Tensor, reference: Tensor) -> bool:
    """Return whether rows [m, d] vary in the directions of ``reference`` no more than ``shuffled`` rows [m, d] do.

    The directions are those in which nearest neighbors among the ``reference`` rows differ. If these differ equally in
    all directions, shuffling changes nothing and the result is False: rows far from all others may belong to the cloud.
    """
    # Use each row in only one difference, because differences that share a row look alike.
    differences = _neighbor_differences(reference, mutual=True)
    if _relation_of(differences, differences).smaller_variation < MIN_VARIATION:
        return False
    fits, shuffled_fits = ((differences @ x.T).square().sum(0) for x in (rows, shuffled))
    share = float((fits > shuffled_fits).double().mean())
    return share <= 0.5 + SHUFFLED_ERRORS * 0.5 / sqrt(len(rows))


def _relation_of(first: Tensor, second: Tensor) -> DirectionRelation:
    d = first.shape[1]
    covariances, variations = [], []
    for rows in (first.double(), second.double()):
        S = rows.T @ rows
        trace = float(S.trace())
        # Only products of different rows, so that tr(S S) is unbiased.
        squares = float(S.square().sum() - rows.square().sum(1).square().sum()) * len(rows) / max(len(rows) - 1, 1)
        covariances.append(S / max(trace, 1e-300))
        variations.append(d * squares / max(trace, 1e-300) ** 2 - 1)
    shared_variation = d * float((covariances[0] * covariances[1]).sum()) - 1
    smaller, larger = min(variations), max(variations)
    correlation = shared_variation / max(smaller * larger, 1e-18) ** 0.5
    return DirectionRelation(correlation, smaller, larger / max(smaller, 1e-18))


def cosines_to_others(units: Tensor, references: Tensor) -> Tensor:
    """Return the cosines [n, n] of unit rows with unit references [n, d], and -inf for a row with its own reference."""
    cosines = units @ references.T
    cosines.fill_diagonal_(-torch.inf)
    return cosines


def _neighbor_differences(units: Tensor, *, mutual: bool = False) -> Tensor:
    """Return the differences [m, d] of unit rows [n, d] from their nearest other rows: each pair once, no zeros.

    With ``mutual``, only pairs of rows that are nearest to each other are taken.
    """
    nearest = cosines_to_others(units, units).argmax(1)
    rows = torch.arange(len(units))
    is_mutual = nearest[nearest] == rows
    is_taken = is_mutual & (rows < nearest) if mutual else ~is_mutual | (rows < nearest)
    differences = (units - units[nearest])[is_taken]
    return differences[differences.any(1)]
