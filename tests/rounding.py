"""How far two correct results of one computation may differ: unit roundoff times size times condition.

The processor, the library and the number of threads decide the order of a sum, the terms per register and whether a
product is rounded before it is added. Bits are equal only for the same kernel, input and memory alignment, on one
machine.
"""

import math

import numpy as np
import torch

LAMBDA = 8
"""Allowed standard deviations of a sum of roundings. Fewer than one sum in 1e13 exceeds them."""


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return the largest relative error of one rounding."""
    return torch.finfo(dtype).eps / 2


def gamma(roundings: int, dtype: torch.dtype) -> float:
    """Return gamma_n = n u / (1 - n u), which bounds the error of n roundings in any order (Higham 2002, lemma 3.1).

    It is relative to the sum of the absolute values of the terms, for a sum or a product of vectors of n terms.
    """
    nu = roundings * unit_roundoff(dtype)
    return nu / (1 - nu)


def tolerance(roundings: int, dtype: torch.dtype, condition: float = 1) -> float:
    """Return how far two results may differ if each has an error up to ``gamma(roundings)``.

    ``condition`` is the sum of the absolute values of the terms over that of the result for a relative bound, and that
    sum itself for an absolute one.
    """
    return 2 * condition * gamma(roundings, dtype)


def likely(roundings: int, dtype: torch.dtype) -> float:
    """Return lambda sqrt(n) u, which n roundings do not exceed in practice (Higham & Mary 2019, theorem 2.4).

    For long sums, where ``gamma`` assumes that all n errors have the same sign.
    """
    return math.expm1(LAMBDA * math.sqrt(roundings) * unit_roundoff(dtype))


def assert_same_images(images: np.ndarray, expected: np.ndarray) -> None:
    """Check that rows [n, d] are images under the same linear map, computed in blocks of other sizes.

    A map fitted on these rows shrinks none of them below a hundredth.
    """
    roundings = 2 * expected.shape[1]
    atol = tolerance(roundings, torch.from_numpy(expected[:0]).dtype, 100 * float(np.abs(expected).max()))
    np.testing.assert_allclose(images, expected, rtol=0, atol=atol)
