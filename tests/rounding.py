"""How far apart two right results of one computation may be: unit roundoff times sizes times condition.

A processor, a library or a number of threads decides in which order a sum is added up, how many terms stand in one
register and whether a product is rounded before it is added. None of this is an error, and none of it is promised: bits
are equal where the same kernel meets the same input at the same place in memory, on one machine.
"""

import math

import numpy as np
import torch

LAMBDA = 8
"""Standard deviations of a sum of roundings that are allowed: one more in fewer than 1e13 sums."""


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return the greatest relative error of one rounding."""
    return torch.finfo(dtype).eps / 2


def gamma(roundings: int, dtype: torch.dtype) -> float:
    """Return gamma_n = n u / (1 - n u), which bounds the error of n roundings in any order (Higham 2002, lemma 3.1).

    It is relative to the sum of the absolute values of the terms, for a sum or a product of vectors of n terms.
    """
    nu = roundings * unit_roundoff(dtype)
    return nu / (1 - nu)


def tolerance(roundings: int, dtype: torch.dtype, condition: float = 1) -> float:
    """Return how far apart two results may be that are each off by ``gamma(roundings)``.

    ``condition`` is the sum of the absolute values of the terms over that of the result for a relative bound, and that
    sum itself for an absolute one.
    """
    return 2 * condition * gamma(roundings, dtype)


def likely(roundings: int, dtype: torch.dtype) -> float:
    """Return lambda sqrt(n) u, which n roundings do not exceed in practice (Higham & Mary 2019, theorem 2.4).

    For long sums: there ``gamma`` is the sum of n errors that would all have to have one sign.
    """
    return math.expm1(LAMBDA * math.sqrt(roundings) * unit_roundoff(dtype))


def assert_same_images(images: np.ndarray, expected: np.ndarray) -> None:
    """Check that rows [n, d] are the images of the same rows under the same linear map, made in blocks of other sizes.

    A map learned from these rows shrinks none below a hundredth of the size of the rows.
    """
    roundings = 2 * expected.shape[1]
    atol = tolerance(roundings, torch.from_numpy(expected[:0]).dtype, 100 * float(np.abs(expected).max()))
    np.testing.assert_allclose(images, expected, rtol=0, atol=atol)
