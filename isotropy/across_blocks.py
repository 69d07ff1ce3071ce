"""The bias-corrected participation ratio of rows that come in groups, from the moments of blocks of whole groups.

The estimates of ``isotropy.unbiased`` are means over four distinct rows, which are biased where two of the four belong
to one group: copies of a row, or sentences of one document. Here the four are taken from four distinct *blocks*. No
group lies in two blocks, so the four are independent, however rows of one group depend on each other. Each choice of
four rows counts once. With ten blocks nine tenths of all pairs of rows are used. The moments of the blocks suffice.
"""

from collections.abc import Sequence
from itertools import permutations

import torch

from isotropy.score import Score, there_are
from isotropy.spectrum import Moments
from isotropy.unbiased import corrected_scores, why_without_spread


class BlockProducts:
    """Inner products between the moments of blocks, from which the estimates for any of the blocks follow.

    Args:
        blocks: moments of the points of each block, none of them empty.

    """

    def __init__(self, blocks: Sequence[Moments]) -> None:
        self.d = blocks[0].d
        self._n = n = torch.tensor([float(block.n) for block in blocks], dtype=torch.float64)
        means = torch.stack([block.mean.cpu() for block in blocks])
        delta = means - n @ means / n.sum()
        scatters = [block.scatter for block in blocks]
        traces = torch.stack([scatter.trace() for scatter in scatters]).cpu() + n * delta.square().sum(1)
        self.reason = why_without_spread(traces)
        # Of one row on average: the estimates are then in units of tr(S)^2 of the sample, as `corrected_scores` asks.
        scale = float(traces.sum() / n.sum()) or 1.0
        delta, traces = delta / scale**0.5, traces / scale
        pushed = torch.stack([(scatter @ delta.T.to(scatter)).T.cpu() for scatter in scatters]) / scale
        within = torch.stack([torch.stack([(S * R).sum() for R in scatters]) for S in scatters]).cpu() / scale / scale

        # The points of block a about the mean of all have the second moments scatter_a + n_a delta_a delta_a^T.
        sums = n[:, None] * delta
        beside = torch.einsum("abd,bd->ab", pushed, sums)
        self._squares = within + beside + beside.T + (sums @ delta.T) * (delta @ sums.T)
        self._forms = torch.einsum("b,abd,cd->bac", n, pushed, sums)
        self._forms += torch.einsum("ba,ac,a->bac", sums @ delta.T, delta @ sums.T, n)
        self._products = sums @ sums.T
        self._distances = torch.outer(traces, n) + torch.outer(n, traces) - 2 * self._products

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._n)

    def estimates(self, without: int | None = None) -> tuple[float, float]:
        """Return unbiased estimates of tr(S)^2 and tr(S S) of at least four blocks but ``without``.

        Both are in units of tr(S)^2 of the sample, or about it.
        """
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
    """Return the bias-corrected IsoScore and participation ratio by their slugs, of all blocks but ``without``.

    Undefined for fewer than four blocks or two dimensions, and where ``isotropy.unbiased`` is.
    """
    left = len(products) - (without is not None)
    if left < 4:
        return corrected_scores(
            f"The bias correction needs at least 4 blocks of groups; {there_are(left)}.", products.d
        )
    if products.reason is not None:
        return corrected_scores(products.reason, products.d)
    return corrected_scores(products.estimates(without), products.d)
