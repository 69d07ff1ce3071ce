"""Ranks that are not whole numbers: how many directions a spectrum uses, and how fast it decays.

All take eigenvalues [d], float64, greatest first, as ``isotropy.spectrum.eigenvalues`` returns them with the rank that
n points can have: of the covariance for the centered points, of ``isotropy.anisotropy.second_moment`` for points as
they are. Singular values of the points are their roots but for a factor, which none of these measures sees.
"""

from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from isotropy.anisotropy import anisotropy, why_undefined
from isotropy.score import Score, there_are

RANKME_EPSILON = 1e-7  # Added to every weight of RankMe, as in its paper for float32
# First and last rank of the fit of alpha-ReQ: those of its authors' code; their paper names none.
ALPHA_WINDOW = (4, 100)


def effective_rank(values: Tensor, weights: Literal["sigma", "lambda"]) -> Score:
    """Return exp of the entropy of the weights, in [1, d]; k equal ones have rank k (Roy & Vetterli 2007).

    Args:
        values: [d] eigenvalues.
        weights: "sigma", the singular values of the points over their sum, as in the paper; or "lambda", the
            eigenvalues over their sum, which small directions add less to.

    Undefined where there is no spread, and for NaN or infinity.

    """
    if (reason := why_undefined(values)) is not None:
        return Score.undefined(reason)
    return Score.within(float(used(values, weights)), 1, len(values))


def used(values: Tensor, weights: Literal["sigma", "lambda"]) -> Tensor:
    """Return the effective rank of nonzero eigenvalues [d], 0-d, differentiable unless one is 0."""
    sizes = values / values[0]
    return _exp_entropy(_shares(sizes.sqrt() if weights == "sigma" else sizes))


def rankme(values: Tensor, n: int) -> Score:
    """Return exp H(sigma / sum sigma + 1e-7) of n points, about 1 to min(n, d) (Garrido et al. 2023).

    H is -sum p log p over the min(n, d) singular values, zeros included; p adds up to a little more than 1.

    Args:
        values: [d] eigenvalues of the second moment, as the paper does not center.
        n: number of points.

    Undefined where all points are zero, and for NaN or infinity.

    """
    if (reason := why_undefined(values)) is not None:
        return Score.undefined(reason)
    return Score(float(used_by_rankme(values[:n])))


def used_by_rankme(values: Tensor) -> Tensor:
    """Return RankMe of min(n, d) eigenvalues that are not all zero, 0-d; differentiable as ``used``."""
    return _exp_entropy(_shares((values / values[0]).sqrt()) + RANKME_EPSILON)


def stable_rank(values: Tensor) -> Score:
    """Return sum lambda / lambda_1, in [1, d]: the spread in units of its greatest (Rudelson & Vershynin 2007).

    That is ||X||_F^2 / ||X||_2^2 of the centered points. Undefined where there is no spread, and for NaN or infinity.
    """
    if (reason := why_undefined(values)) is not None:
        return Score.undefined(reason)
    return Score.within(float((values / values[0]).sum()), 1, len(values))


def explained_variance(values: Tensor, K: int) -> tuple[Score, ...]:
    """Return the share of the k greatest eigenvalues in their sum for k = 1 to K, each in [0, 1] and none falling.

    They are the sums of ``anisotropy``, and undefined where that is.

    Raises:
        ValueError: K is not between 1 and d.

    """
    shares = anisotropy(values, K)
    defined = [share.value for share in shares if share.value is not None]
    return tuple(Score.within(share, 0, 1) for share in accumulate(defined)) or shares


def alpha_req(values: Tensor, window: tuple[int, int] = ALPHA_WINDOW) -> Score:
    """Return alpha of the power law lambda_i ~ i^-alpha, not below 0 (Agrawal et al. 2022); 0 is flat.

    The slope of log lambda on log i by least squares with weights 1 / i, which make up for ranks that crowd on a
    logarithmic axis: so do the authors' code and that of Stringer et al. (2019), which it follows. Eigenvalues of 0
    are left out.

    Args:
        values: [d] eigenvalues.
        window: first and last rank of the fit, from 1; ranks past the last eigenvalue above 0 are left out.

    Undefined where the window holds fewer than two eigenvalues above 0, and for NaN or infinity.

    Raises:
        ValueError: the window does not hold two ranks.

    """
    first, last = window
    if not 1 <= first < last:
        raise ValueError(f"Expected a window of ranks 1 <= first < last, got {window}: a slope needs two points.")
    if (reason := why_undefined(values)) is not None:
        return Score.undefined(reason)
    fitted = values[first - 1 : last]
    fitted = fitted[fitted > 0]
    if len(fitted) < 2:
        return Score.undefined(
            f"alpha-ReQ fits eigenvalues {first} to {last} and needs at least 2 of them above 0; "
            f"{there_are(len(fitted))}."
        )
    ranks = torch.arange(first, first + len(fitted)).to(fitted)
    weights = _shares(1 / ranks)
    x, y = ranks.log(), (fitted / values[0]).log()
    x = x - weights @ x
    return Score(max(-float(((weights * x) @ y) / ((weights * x) @ x)), 0.0))


def _shares(sizes: Tensor) -> Tensor:
    return sizes / sizes.sum()


def _exp_entropy(p: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(p).sum()
    return entropy.exp()
