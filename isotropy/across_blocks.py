"""Bias-corrected scores of rows in groups, and scores without each block of rows.

The estimates of ``isotropy.unbiased`` are means over four distinct rows, which is biased where two of them belong to
one group. Here the four come from four distinct blocks; no group lies in two blocks, so they are independent. Sums
without a block follow from inner products between the blocks' moments, so no matrix is merged.
"""

from collections.abc import Sequence
from itertools import permutations

import torch

from isotropy.score import Score, there_are
from isotropy.unbiased import FourthMoments, corrected_from_sums, corrected_scores, why_without_spread


class BlockProducts:
    """Inner products between the moments of nonempty blocks, from which all leave-out estimates follow.

    They are taken about the median of the blocks' means, so that a block of huge rows costs no digits when it is left
    out, and in units of the spread.
    """

    def __init__(self, blocks: Sequence[FourthMoments]) -> None:
        self.d = blocks[0].d
        self._n = n = torch.tensor([float(block.n) for block in blocks], dtype=torch.float64)
        means = torch.stack([block.mean.cpu() for block in blocks])
        centre = means.median(0).values
        delta = means - centre
        scatters = [block.scatter for block in blocks]
        scatter_traces = torch.stack([scatter.trace() for scatter in scatters]).cpu()
        traces = scatter_traces + n * delta.square().sum(1)
        self.reason = why_without_spread(traces)
        # Of one row on average: the estimates are then in units of tr(S)^2 of the sample, as `corrected_scores` asks.
        scale = float(traces.sum() / n.sum()) or 1.0
        delta, scatter_traces, traces = delta / scale**0.5, scatter_traces / scale, traces / scale
        pushed = torch.stack([(scatter @ delta.T.to(scatter)).T.cpu() for scatter in scatters]) / scale
        within = torch.zeros(len(n), len(n), dtype=torch.float64)
        for a, S in enumerate(scatters):
            for b, R in enumerate(scatters[: a + 1]):
                within[a, b] = within[b, a] = torch.linalg.vecdot(S.flatten(), R.flatten()).cpu() / scale / scale

        # The points of block a about the mean of all have the second moments scatter_a + n_a delta_a delta_a^T.
        sums = n[:, None] * delta
        mean_products = torch.einsum("abd,bd->ab", pushed, sums)
        self._squares = within + mean_products + mean_products.T + (sums @ delta.T) * (delta @ sums.T)
        self._forms = torch.einsum("b,abd,cd->bac", n, pushed, sums)
        self._forms += torch.einsum("ba,ac,a->bac", sums @ delta.T, delta @ sums.T, n)
        self._products = sums @ sums.T
        self._centre, self._scatter_traces = centre / scale**0.5, scatter_traces
        self._delta, self._pushed = delta, pushed
        self._third = torch.stack([block.third.cpu() for block in blocks]) / scale**1.5
        self._fourth = torch.tensor([block.fourth for block in blocks], dtype=torch.float64) / scale / scale
        self._traces = traces
        self._distances = torch.outer(traces, n) + torch.outer(n, traces) - 2 * self._products

    def __len__(self) -> int:
        return len(self._n)

    def scores_without(self, block: int) -> dict[str, Score]:
        """Return the mean share and the bias-corrected scores, by slug, without a block; rows count as independent."""
        weights = self._n * (torch.arange(len(self)) != block)
        remaining, n = weights > 0, float(weights.sum())
        mean = weights @ self._delta / n
        square = mean.square().sum()
        trace = self._traces[remaining].sum() - n * square
        squares = self._squares[remaining][:, remaining].sum() + (n * square) ** 2
        squares -= 2 / n * self._forms[remaining][:, remaining][:, :, remaining].sum()
        offsets = self._delta - mean
        pushed = self._pushed[torch.arange(len(self)), torch.arange(len(self))] - self._pushed.mT @ weights / n
        away = offsets.square().sum(1)
        fourth = (
            self._fourth
            + 4 * (offsets * (self._third + pushed)).sum(1)
            + away * (2 * self._scatter_traces + self._n * away)
        )
        of_mean = (self._centre + mean).square().sum()
        share = Score.within(float(of_mean / (trace / n + of_mean)), 0, 1)
        return {"mean_share": share} | corrected_from_sums(
            int(n), self.d, float(trace), float(squares), float(fourth[remaining].sum())
        )

    def estimates(self, without: int | None = None) -> tuple[float, float]:
        """Return unbiased estimates of tr(S)^2 and tr(S S) in units of about tr(S)^2, without a block."""
        blocks = [block for block in range(len(self)) if block != without]
        a, b, c, e = torch.tensor(list(permutations(blocks, 4))).T
        n = self._n
        choices = (n[a] * n[b] * n[c] * n[e]).sum()
        pairs = self._squares[a, b] * n[c] * n[e]
        triples = self._forms[b, a, c] * n[e]
        disjoint = self._products[a, b] * self._products[c, e]
        distances = self._distances[a, b] * self._distances[c, e]
        squares = (pairs - 2 * triples + disjoint).sum() / choices
        return float(distances.sum() / (4 * choices)), float(squares)


def scores_across(products: BlockProducts, without: int | None = None) -> dict[str, Score]:
    """Return the bias-corrected IsoScore and participation ratio, by slug, of all blocks but ``without``.

    Undefined for fewer than four blocks or two dimensions, and where ``isotropy.unbiased`` is.
    """
    blocks_left = len(products) - (without is not None)
    if blocks_left < 4:
        return corrected_scores(
            "The bias correction needs at least 4 independent rows, where exact duplicates, and rows of one group,"
            f" count once; {there_are(blocks_left)}.",
            products.d,
        )
    if products.reason is not None:
        return corrected_scores(products.reason, products.d)
    return corrected_scores(products.estimates(without), products.d)
