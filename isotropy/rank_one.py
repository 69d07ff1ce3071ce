"""Eigenvalues and eigenvectors of a matrix to which an outer product was added, from those that it had before.

Of a second moment: it is the covariance and the outer product of the mean. That takes one product in place of another
decomposition. The roots of the secular equation are LAPACK's (dlasd4); deflation and eigenvectors are those of its
divide-and-conquer solver (dlaed2 and dlaed3; Gu & Eisenstat 1994, "A Stable and Efficient Algorithm for the Rank-One
Modification of the Symmetric Eigenproblem"), so that values and vectors are as precise as that solver's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dlasd4
from torch import Tensor

STEPS = 3
"""Of Newton's method, from a start that has most digits."""

Numbers = NDArray[np.float64]


def with_outer_product(values: Tensor, vectors: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues [d], ascending, and eigenvectors [d, d] of V diag(values) V^T + x x^T.

    Args:
        values: float64 [d], ascending, none below 0.
        vectors: V, float64 [d, d], orthonormal, one a column.
        x: float64 [d].

    Raises:
        numpy.linalg.LinAlgError: a root was not found, as where the numbers are not finite.

    """
    # LAPACK multiplies four squares, which leave float64 early: in units of a power of two no digit is lost.
    size = max(math.sqrt(values[-1]), float(torch.linalg.vector_norm(x)))
    unit = 2.0 ** math.frexp(size)[1] if math.isfinite(size) else 1.0
    apart = _deflated((values / unit / unit).numpy(), (vectors.T @ (x / unit)).numpy())
    raised, along = apart.values, np.zeros((len(values), len(values)))  # a row for each eigenvector, in terms of V
    along[~apart.kept, ~apart.kept] = 1
    raised[apart.kept] = _moved(apart, along)
    for first, second, cosine, sine in reversed(apart.turns):
        one, other = along[:, first].copy(), along[:, second]
        along[:, first], along[:, second] = cosine * one - sine * other, sine * one + cosine * other
    order = np.argsort(raised, kind="stable")
    if not (order[1:] > order[:-1]).all():
        raised, along = raised[order], along[order]
    return torch.from_numpy(raised) * unit * unit, (torch.from_numpy(along) @ vectors.T).T


class _Deflated(NamedTuple):
    """A diagonal matrix, and what is added to it, turned so that it moves only values that are apart."""

    values: Numbers
    """[d] of the diagonal, after the turns."""
    added: Numbers
    """[d]; 0 where nothing is added, within rounding."""
    kept: NDArray[np.bool_]
    """[d], where something is added: these values ascend strictly."""
    turns: list[tuple[int, int, float, float]]
    """Two places, cosine and sine of each turn, in the order they were made in."""


def _deflated(values: Numbers, added: Numbers) -> _Deflated:
    values, added, turns = values.copy(), added.copy(), []
    length = float(np.linalg.norm(added))
    rounding = 8 * float(np.finfo(np.float64).eps) * max(float(values[-1]), length * length)
    kept = ~(np.abs(added) * length <= rounding)  # NaN is kept, to be refused
    added[~kept] = 0
    first = -1
    for second in kept.nonzero()[0].tolist():
        if first >= 0:
            size = math.hypot(added[first], added[second])
            cosine, sine = added[second] / size, -added[first] / size
            if abs((values[second] - values[first]) * cosine * sine) <= rounding:
                added[first], added[second], kept[first] = 0, size, False
                low, high = values[first], values[second]
                values[first] = low * cosine**2 + high * sine**2
                values[second] = low * sine**2 + high * cosine**2
                turns.append((first, second, cosine, sine))
        first = second
    return _Deflated(values, added, kept, turns)


def _moved(apart: _Deflated, along: Numbers) -> Numbers:
    """Return the eigenvalues [kept] that are moved, and write their eigenvectors into rows [d, d]."""
    places = apart.kept.nonzero()[0]
    if len(places) == 0:
        return apart.values[places]
    roots, added = np.sqrt(apart.values[places]), apart.added[places]
    length = float(np.linalg.norm(added))
    if len(places) == 1:
        along[places[0], places[0]] = 1
        return np.square(roots) + length * length
    # As if no place was left out: a view, which spares a copy of the matrix.
    everywhere = len(places) == len(along)
    found = np.empty(len(places))
    squares = np.ones(len(places))
    differences: Any = along if everywhere else np.empty((len(places), len(places)))
    for i, unit in enumerate(roots):
        delta, root, sums, info = dlasd4(i, roots, added / length, length * length)
        if info:
            raise np.linalg.LinAlgError(
                "An eigenvalue of the second moment was not found: some moments are not finite."
            )
        gaps = (roots - unit) * (roots + unit)
        differences[i] = delta * sums
        if i == len(places) - 1:
            root = math.hypot(unit, _beyond_last(gaps, added, -float(differences[i, i]), out=differences[i]) ** 0.5)
        gaps[i] = 1
        squares *= differences[i] / gaps
        found[i] = root * root
    # What would have to be added for exactly these eigenvalues: vectors made of it are orthogonal.
    exact = np.copysign(np.sqrt(np.abs(squares)), added)
    for row in differences:
        np.divide(exact, row, out=row)
        np.divide(row, np.linalg.norm(row), out=row)
    if not everywhere:
        along[np.ix_(places, places)] = differences
    return found


def _beyond_last(gaps: Numbers, added: Numbers, beyond: float, out: Numbers) -> float:
    """Return how far the greatest value moves, given about: LAPACK's root has a few digits less if it moves very far.

    By Newton's steps for the inverse of the secular function's sum, which is nearly a line there.

    Args:
        gaps: [kept], each value minus the greatest.
        added: [kept].
        beyond: about how far.
        out: [kept], receives each value minus the moved one.

    """
    for _ in range(STEPS):
        terms = added / np.subtract(gaps, beyond, out=out)
        total = -float(terms @ added)
        beyond -= (1 - total) * total / float(terms @ terms)
    np.subtract(gaps, beyond, out=out)
    return beyond
