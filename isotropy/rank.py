"""Ranks that are not whole numbers: how many directions a spectrum uses, and how fast it decays.

All take float64 eigenvalues [d], descending, as ``isotropy.spectrum.eigenvalues`` returns them: of the covariance for
centered points, of ``isotropy.anisotropy.second_moment`` for points as they are.
"""

from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from isotropy.anisotropy import anisotropy, explain_undefined
from isotropy.score import Score, there_are

RANKME_EPSILON = 1e-7  # Added to every weight of RankMe, as in its paper for float32
# First and last rank of the fit of alpha-ReQ: those of its authors' code; their paper names none.
ALPHA_WINDOW = (4, 100)


def effective_rank(values: Tensor, weights: Literal["sigma", "lambda"]) -> Score:
    """Return exp of the entropy of the weights of eigenvalues [d], in [1, d] (Roy & Vetterli 2007).

    ``weights`` "sigma" are singular values over their sum, as in the paper; "lambda" are eigenvalues over their sum.
    Undefined without spread, and for NaN or infinity.
    """
    if (reason := explain_undefined(values)) is not None:
        return Score.undefined(reason)
    return Score.clipped(float(differentiable_effective_rank(values, weights)), 1, len(values))


def differentiable_effective_rank(values: Tensor, weights: Literal["sigma", "lambda"]) -> Tensor:
    """Return the effective rank of nonzero eigenvalues [d], 0-d, differentiable unless one is 0."""
    relative_values = values / values[0]
    relative_values = relative_values.sqrt() if weights == "sigma" else relative_values
    return _exp_entropy(relative_values / relative_values.sum())


def rankme(values: Tensor, n: int) -> Score:
    """Return exp H(sigma / sum sigma + 1e-7) of n points from second-moment eigenvalues [d] (Garrido et al. 2023).

    H is -sum p log p over min(n, d) singular values, zeros included, so it is about 1 to min(n, d). Undefined where all
    points are zero, and for NaN or infinity.
    """
    if (reason := explain_undefined(values)) is not None:
        return Score.undefined(reason)
    return Score(float(differentiable_rankme(values[:n])))


def differentiable_rankme(values: Tensor) -> Tensor:
    """Return RankMe of min(n, d) eigenvalues that are not all zero, 0-d; differentiable unless one is 0."""
    singular_values = (values / values[0]).sqrt()
    return _exp_entropy(singular_values / singular_values.sum() + RANKME_EPSILON)


def stable_rank(values: Tensor) -> Score:
    """Return sum lambda / lambda_1 = ||X||_F^2 / ||X||_2^2 of eigenvalues [d], in [1, d] (Rudelson & Vershynin 2007).

    Undefined without spread, and for NaN or infinity.
    """
    if (reason := explain_undefined(values)) is not None:
        return Score.undefined(reason)
    return Score.clipped(float((values / values[0]).sum()), 1, len(values))


def explained_variance(values: Tensor, K: int) -> tuple[Score, ...]:
    """Return the share of the k largest eigenvalues in the sum of all, k = 1 to K, in [0, 1].

    Undefined where ``anisotropy`` is. Raises ValueError unless 1 <= K <= d.
    """
    shares = anisotropy(values, K)
    defined = [share.value for share in shares if share.value is not None]
    return tuple(Score.clipped(share, 0, 1) for share in accumulate(defined)) or shares


def alpha_req(values: Tensor, window: tuple[int, int] = ALPHA_WINDOW) -> Score:
    """Return alpha of the power law lambda_i ~ i^-alpha of eigenvalues [d], 0 if flat (Agrawal et al. 2022).

    Least squares of log lambda on log i with weights 1 / i, as in the authors' code (Stringer et al. 2019), over ranks
    in ``window``, from 1. Undefined for fewer than two positive eigenvalues there. Raises ValueError for a window
    without two ranks.
    """
    first, last = window
    if not 1 <= first < last:
        raise ValueError(f"Expected a window of ranks 1 <= first < last, got {window}: a slope needs two points.")
    if (reason := explain_undefined(values)) is not None:
        return Score.undefined(reason)
    fitted = values[first - 1 : last]
    fitted = fitted[fitted > 0]
    if len(fitted) < 2:
        return Score.undefined(
            f"alpha-ReQ fits eigenvalues {first} to {last} and needs at least 2 of them above 0; "
            f"{there_are(len(fitted))}."
        )
    ranks = torch.arange(first, first + len(fitted)).to(fitted)
    weights = 1 / ranks
    weights = weights / weights.sum()
    x, y = ranks.log(), (fitted / values[0]).log()
    x = x - weights @ x
    return Score(max(-float(((weights * x) @ y) / ((weights * x) @ x)), 0.0))


def _exp_entropy(p: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(p).sum()
    return entropy.exp()
