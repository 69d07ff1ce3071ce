"""Measures of the spectrum with each block of rows left out, from one decomposition of all rows.

To first order, eigenvalues without a block are v^T S v, with S the matrix of the other rows. Leading ones are taken one
by one; the others, the tail, are scaled by their known sum, and move each measure by the sum of v^T S v times its
slope. So blocks share one product of d^3, and the result is smooth where eigenvalues are close.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from isotropy import rank
from isotropy.anisotropy import anisotropy
from isotropy.score import Score
from isotropy.spectrum import BLOCK_COLUMNS, Moments, clean_eigenvalues

TOP = 10  # Number of directions with a k-th anisotropy and explained variance
# Eigenvalues tracked one by one; only measures of the full spectrum depend on others.
N_LEADING = max(TOP, rank.ALPHA_WINDOW[1])


class Decomposition(NamedTuple):
    """Eigenvalues and eigenvectors of a covariance or second moment."""

    values: Tensor  # Eigenvalues as in `isotropy.spectrum.eigenvalues`
    vectors: Tensor  # Eigenvectors as columns, by ascending eigenvalue, float64 [d, d]; NaN for a matrix not finite

    @classmethod
    def from_matrix(cls, S: Tensor, rank: int) -> "Decomposition":
        """Decompose a matrix [d, d] with at most ``rank`` nonzero eigenvalues."""
        if not S.isfinite().all():
            return cls(torch.full_like(S[0], torch.nan), torch.full_like(S, torch.nan))
        values, vectors = torch.linalg.eigh(S)
        return cls(clean_eigenvalues(values, rank), vectors)


class SpectraWithoutBlocks:
    """Spectra of a covariance, or second moment, with each block left out, along the eigenvectors for all rows.

    ``measures`` map positive eigenvalues, descending, to a 0-d tensor; ``blocks`` are the moments of each block.
    ``about_zero`` says that ``decomposition`` is of the second moment.
    """

    def __init__(
        self,
        decomposition: Decomposition,
        measures: Sequence[Callable[[Tensor], Tensor]],
        blocks: Sequence[Moments],
        *,
        about_zero: bool,
    ) -> None:
        means = torch.stack([block.mean for block in blocks])
        # The median, so that a block of huge rows costs no digits when it is left out.
        self._center = means.median(0).values
        self._values, self._vectors, self._about_zero = *decomposition, about_zero
        self._leading = decomposition.vectors.flip(1)[:, :N_LEADING].contiguous()
        # The derivative of each measure by each eigenvalue [measures, d]; 0 for leading eigenvalues and zeros.
        self._slopes = torch.zeros(len(measures), len(self._values), dtype=self._values.dtype)
        positive = self._values > 0
        if len(self._values) > N_LEADING and positive.any():
            for slopes, measure in zip(self._slopes, measures, strict=True):
                with torch.enable_grad():
                    x = self._values[positive].requires_grad_()
                    (slopes[positive],) = torch.autograd.grad(measure(x), x)
            self._slopes[:, :N_LEADING] = 0
        self._n = torch.tensor([float(block.n) for block in blocks], dtype=torch.float64)
        self._means = means - self._center
        self._sums = self._scatter_terms([block.scatter for block in blocks])
        self._sums += self._n[:, None] * self._point_terms(self._means)

    def without_block(self, block: int) -> tuple[Tensor, Tensor]:
        """Return the eigenvalues [d] without a block, and the change of each measure by the tail's shape [measures]."""
        remaining = torch.arange(len(self._n)) != block
        n, sums = self._n[remaining].sum(), self._sums[remaining].sum(0)
        mean = self._n[remaining] @ self._means[remaining] / n
        sums = sums - n * self._point_terms(mean[None])[0]
        terms = sums / n + self._point_terms(mean[None] + self._center)[0] if self._about_zero else sums / (n - 1)
        k = self._leading.shape[1]
        leading, trace, tail_terms = terms[:k].clamp(min=0), terms[k], terms[k + 1 :]
        leading, tail = leading.where(self._values[:k] > 0, self._values[:k]), self._values[k:]
        if (tail_sum := tail.sum()) > 0:
            tail = tail * ((trace - leading.sum()).clamp(min=0) / tail_sum)
        return torch.cat([leading, tail]), tail_terms - self._slopes[:, k:] @ tail

    def _point_terms(self, x: Tensor) -> Tensor:
        """Return ``_scatter_terms`` of the matrices x x^T, for each x [m, d]."""
        squared_projections = (x @ self._vectors).flip(1).square()
        return torch.cat(
            [
                squared_projections[:, : self._leading.shape[1]],
                squared_projections.sum(1, keepdim=True),
                squared_projections @ self._slopes.T,
            ],
            1,
        )

    def _scatter_terms(self, scatters: Sequence[Tensor]) -> Tensor:
        """Return terms of each of m matrices S [d, d], [m, leading + 1 + measures].

        They are v^T S v for each leading eigenvector v, the trace, and for each measure the sum of v^T S v times its
        slope over the tail, computed as the sum of the entries of S times V diag(slopes) V^T.
        """
        d, V, slopes = len(self._vectors), self._vectors, self._slopes.flip(1)
        leading = torch.stack([((S @ self._leading) * self._leading).sum(0) for S in scatters])
        trace = torch.stack([S.trace() for S in scatters])[:, None]
        tails = torch.zeros(len(scatters), len(slopes), dtype=torch.float64)
        has_slope = slopes.any(0)
        first, last = (int(has_slope.nonzero()[i]) for i in (0, -1)) if has_slope.any() else (0, -1)
        V, slopes = V[:, first : last + 1], slopes[:, first : last + 1]
        for start in range(0, d if has_slope.any() else 0, BLOCK_COLUMNS):
            columns = slice(start, min(start + BLOCK_COLUMNS, d))
            for measure, slope in enumerate(slopes):
                # Stop at the diagonal, because both matrices are symmetric; off-diagonal entries count twice.
                product = V[: columns.stop] @ (V[columns] * slope).T
                product[:start] *= 2
                for block, S in enumerate(scatters):
                    tails[block, measure] += (product * S[: columns.stop, columns]).sum()
        return torch.cat([leading, trace, tails], 1)


def scores_without_blocks(
    covariance: Decomposition, second_moment: Decomposition, blocks: Sequence[Moments], moments: Moments
) -> Iterator[dict[str, Score]]:
    """Yield the measures by slug without each block in turn, from decompositions of the ``moments`` of all rows."""
    n, d = moments.n, moments.d

    def rankme(positive: Tensor) -> Tensor:
        return rank.differentiable_rankme(torch.cat([positive, positive.new_zeros(min(n, d) - len(positive))]))

    ranks = {
        "effective_rank": lambda values: rank.differentiable_effective_rank(values, "sigma"),
        "effective_rank_lambda": lambda values: rank.differentiable_effective_rank(values, "lambda"),
    }
    covariance_spectra = SpectraWithoutBlocks(covariance, list(ranks.values()), blocks, about_zero=False)
    second_moment_spectra = SpectraWithoutBlocks(second_moment, [rankme], blocks, about_zero=True)
    for block in range(len(blocks)):
        values, rank_shifts = covariance_spectra.without_block(block)
        energies, rankme_shift = second_moment_spectra.without_block(block)
        scores = spectrum_scores(values, energies, n)
        for slug, shift in zip((*ranks, "rankme"), (*rank_shifts.tolist(), *rankme_shift.tolist()), strict=True):
            value = scores[slug].value
            if value is not None:
                scores[slug] = Score(value + shift)
        yield scores


def spectrum_scores(values: Tensor, energies: Tensor, n: int) -> dict[str, Score]:
    """Return measures by slug, the k-th of a list as "slug k", from eigenvalues [d] of covariance and second moment."""
    has_spread = bool(values[0] > 0)  # False for NaN
    largest = Score(float(values[0])) if has_spread else Score.undefined("There is no spread, or it is not finite.")
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
        "spectrum": largest,
        **{f"{slug} {k}": score for slug, scores in lists.items() for k, score in enumerate(scores, 1)},
    }
