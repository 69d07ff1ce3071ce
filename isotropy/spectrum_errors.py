"""Measures of the spectrum for all rows and without each block of them, by one decomposition of all rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from isotropy import rank
from isotropy.anisotropy import anisotropy
from isotropy.score import Score
from isotropy.spectrum import without_rounding

TOP = 10
"""Directions of which k-th anisotropy and explained variance are told."""


class Decomposed(NamedTuple):
    """Eigenvalues and eigenvectors of a covariance or second moment."""

    values: Tensor
    """As ``isotropy.spectrum.eigenvalues``."""
    vectors: Tensor
    """Float64 [d, d], of ascending eigenvalues, one a column; NaN where the matrix is not finite."""

    @classmethod
    def of(cls, S: Tensor, rank: int) -> Decomposed:
        """Decompose a matrix [d, d] of which ``rank`` eigenvalues can differ from 0."""
        if not S.isfinite().all():
            return cls(torch.full_like(S[0], torch.nan), torch.full_like(S, torch.nan))
        values, vectors = torch.linalg.eigh(S)
        return cls(without_rounding(values, rank), vectors)

    def along(self, S: Tensor) -> Tensor:
        """Return v^T S v [d] for each eigenvector v, the greatest eigenvalue's first: eigenvalues of S to first order.

        S is the matrix of most of the same points. One product in place of a decomposition, a tenth of the time; and
        where eigenvalues are close, so that decompositions would exchange them, still a smooth function of S.
        """
        along = ((S @ self.vectors) * self.vectors).sum(0).flip(0).clamp(min=0)
        return along.where(self.values > 0, self.values)


def spectrum_scores(values: Tensor, energies: Tensor, n: int) -> dict[str, Score]:
    """Return the measures of eigenvalues by slug, the k-th of a list by "slug k".

    Args:
        values: [d] of the covariance.
        energies: [d] of the second moment.
        n: number of points.

    """
    top = min(TOP, len(values))
    lists = {
        "anisotropy_raw": anisotropy(energies, top),
        "anisotropy_centred": anisotropy(values, top),
        "explained_variance": rank.explained_variance(values, top),
    }
    return {
        "effective_rank": rank.effective_rank(values, "sigma"),
        "effective_rank_lambda": rank.effective_rank(values, "lambda"),
        "rankme": rank.rankme(energies, n),
        "stable_rank": rank.stable_rank(values),
        "alpha_req": rank.alpha_req(values),
        "spectrum": _greatest(values),
        **{f"{slug} {k}": score for slug, scores in lists.items() for k, score in enumerate(scores, 1)},
    }


def _greatest(values: Tensor) -> Score:
    if not (values[0] > 0):
        return Score.undefined("There is no spread, or it is not finite.")
    return Score(float(values[0]))
