"""Bias-corrected IsoScore: unbiased estimates in place of the squares of a sample's covariance.

A sample's covariance C has too large a tr(C C), by about tr(C)^2 / n, and IsoScore = (tr(C)^2 / tr(C C) - 1) / (d - 1)
is too small unless n >> d. For the population's covariance S, both are estimated without bias from independent rows:

    tr(S S)   is the mean of ((x_i - x_j) . (x_k - x_l))^2 / 4         over all i, j, k, l that are distinct
    tr(S)^2   is the mean of ||x_i - x_j||^2 ||x_k - x_l||^2 / 4

These U-statistics (Chen, Zhang & Zhong 2010) follow from moments (Himeno & Yamada 2014), with
Q = sum ||x_i - mean||^4 / (n - 1) and k = (n - 1) / (n (n - 2) (n - 3)):

    tr(S S)   k ((n - 1) (n - 2) ||C||^2 + tr(C)^2 - n Q)
    tr(S)^2   k (2 ||C||^2 + (n^2 - 3 n + 1) tr(C)^2 - n Q)

Their ratio is the participation ratio that Chun et al. (2026) correct for few rows. It keeps a bias of order 1/n.

Means over four distinct rows are biased where two of them belong to one group. For rows in groups the four come from
four distinct blocks (``BlockProducts``); no group lies in two blocks, so they are independent. Sums without a block
follow from inner products between the blocks' moments, so no matrix is merged.
"""

from collections.abc import Sequence
from itertools import permutations
from math import inf, isfinite
from typing import Self, TypeVar

import torch
from torch import Tensor

from isotropy.points import at_least_float32, require_points, scaled
from isotropy.score import Score, there_are
from isotropy.spectrum import CHUNK_ROWS, SAFE_NORM, Moments, center, gram, shift_near_mean

PAIR_ROWS = 256  # Rows whose products with all rows are held at once: 256 x 20,000 products are 41 MB
MIN_SQUARED_SHIFT = 1e-146  # Rounding errors of squares of smaller numbers are below the range of float64
ROUNDING = 1e-9  # Fraction of tr(C)^2 below which an estimate has lost its digits to cancellation
N = TypeVar("N", float, Tensor)
NOT_FINITE = "The covariance is not finite: some points are NaN, infinite or too large."


class FourthMoments(Moments):
    """Moments, and the third and fourth moments of distances to the mean that the bias correction needs.

    With y = x - mean, sum ||y||^2 y and sum ||y||^4 are float64 about the mean so far, so that parts merge exactly.
    """

    def __init__(self, d: int, device: torch.device | str = "cpu") -> None:
        super().__init__(d, device)
        self.third_sum = torch.zeros_like(self.mean)  # Sum of ||x - mean||^2 (x - mean), float64 [d], read-only
        self._fourth_sum = torch.zeros_like(self.mean.sum())

    @property
    def fourth_sum(self) -> float:
        """Sum of ||x - mean||^4 over the points."""
        return float(self._fourth_sum)

    def update(self, x: Tensor) -> None:
        require_points(x, self.d)
        for start in range(0, len(x), CHUNK_ROWS):
            chunk = self._to_storage(x[start : start + CHUNK_ROWS].detach())
            n, total = len(chunk), self.n + len(chunk)
            # One extra row adds the outer product of ``delta``.
            rows = chunk.new_empty(n + 1, self.d)
            shift, y, shifted_mean = shift_near_mean(chunk, rows[:n])
            y -= shifted_mean
            delta = shift + shifted_mean - self.mean
            mean = self.mean + delta * (n / total)
            self.third_sum, self._fourth_sum = self._sums_about(mean)
            rows[n] = delta * (self.n * n / total) ** 0.5
            gram(rows, add_to=self.scatter)
            self.n, self.mean = total, mean
            y += delta * (1 - n / total)
            squares = torch.linalg.vecdot(y, y)
            self.third_sum += squares @ y
            self._fourth_sum += squares.square().sum()

    def merge(self, moments: Self) -> None:
        super().merge(moments)
        third_sum, fourth_sum = moments._sums_about(self.mean)
        self.third_sum += third_sum.to(self.third_sum)
        self._fourth_sum += fourth_sum.to(self._fourth_sum)

    def select_dimensions(self, dimensions: Tensor) -> Self:
        """Return the moments of the dimensions in a mask [d]; pass all points to ``add_distances`` to complete them."""
        moments = type(self)(int(dimensions.sum()), self.mean.device)
        moments.n, moments.mean = self.n, self.mean[dimensions]
        moments.scatter = self.scatter[dimensions][:, dimensions]
        return moments

    def add_distances(self, x: Tensor) -> None:
        """Add the distances to the mean for points [n, d] that are already counted."""
        for start in range(0, len(x), CHUNK_ROWS):
            y = self._to_storage(x[start : start + CHUNK_ROWS].detach()) - self.mean
            squares = y.square().sum(1)
            self.third_sum += squares @ y
            self._fourth_sum += squares.square().sum()

    def rescale(self, factor: float) -> None:
        sums = ((self.mean, 1), (self.scatter, 2), (self.third_sum, 3), (self._fourth_sum, 4))
        for tensor, power in sums:
            for _ in range(power):  # factor**power may overflow or underflow where the product does not
                tensor.mul_(factor)

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"third": self.third_sum.clone(), "fourth": self._fourth_sum.clone()}

    @classmethod
    def from_state(cls, state: dict[str, Tensor], device: torch.device | str = "cpu") -> Self:
        moments = super().from_state(state, device)
        moments.third_sum += moments._to_storage(state["third"])
        moments._fourth_sum += moments._to_storage(state["fourth"])
        return moments

    def _add(self, n: int, mean: Tensor, scatter: Tensor) -> None:
        self.third_sum, self._fourth_sum = self._sums_about(self.mean + (mean - self.mean) * (n / max(self.n + n, 1)))
        super()._add(n, mean, scatter)

    def _sums_about(self, center: Tensor) -> tuple[Tensor, Tensor]:
        """Return sum ||y||^2 y [d] and sum ||y||^4, 0-d, for y = x - ``center`` [d]."""
        delta = self.mean - self._to_storage(center)
        squared_shift, trace, scatter_delta = delta @ delta, self.scatter.trace(), self.scatter @ delta
        third_sum = self.third_sum + 2 * scatter_delta + (trace + self.n * squared_shift) * delta
        fourth_sum = (
            self._fourth_sum
            + 4 * delta @ (self.third_sum + scatter_delta)
            + squared_shift * (2 * trace + self.n * squared_shift)
        )
        return third_sum, fourth_sum


def isoscore_unbiased(x: Tensor) -> Score:
    """Return the bias-corrected IsoScore of points [n, d]: about 1 is isotropic, 0 a line; it may leave [0, 1].

    Rows are independent draws. Takes n d min(n, d) operations. Undefined for fewer than four points or two dimensions,
    equal points, NaN or infinity, and estimates not above zero. Raises ValueError for another shape or type.
    """
    require_points(x)
    n, d = x.shape
    if (reason := _explain_too_few(n, d)) is not None:
        return Score.undefined(reason)
    if not x.isfinite().all():
        return Score.undefined(NOT_FINITE)
    x, _ = scaled(at_least_float32(x.detach()))  # or fourth powers leave the range of float64
    if n >= d:
        moments = FourthMoments(d)
        moments.update(x)
        return isoscore_unbiased_from_moments(moments)
    _, y = center(x.cpu().double())
    if (reason := explain_missing_spread(y)) is not None:
        return Score.undefined(reason)
    y = y / y.abs().max()  # or products leave the range of float64
    norms = y.square().sum(1)
    squares = sum(float((rows @ y.T).square().sum()) for rows in torch.split(y, PAIR_ROWS))
    sums = float(norms.sum()), squares, float(norms.square().sum())
    return corrected_scores_from_sums(n, d, *sums)["isoscore_unbiased"]


def isoscore_unbiased_from_moments(moments: FourthMoments) -> Score:
    """Return ``isoscore_unbiased`` from moments; undefined also where fourth powers of the points lose digits."""
    return corrected_scores_from_moments(moments)["isoscore_unbiased"]


def corrected_scores_from_moments(moments: FourthMoments) -> dict[str, Score]:
    """Return the bias-corrected IsoScore and participation ratio from moments, by slug."""
    n, d = moments.n, moments.d
    if (reason := _explain_too_few(n, d) or explain_missing_spread(moments.scatter)) is not None:
        return corrected_scores(reason, d)
    # Added points shift the mean by about sqrt(variance / n). Fourth moments contain the fourth power of that shift.
    if float(moments.scatter.trace()) / (n - 1) / n < MIN_SQUARED_SHIFT:
        return corrected_scores("The fourth powers of the points are too small for float64: scale the points up.", d)
    traces = trace_estimates(moments)
    if not isfinite(sum(traces)):
        return corrected_scores("The fourth powers of the points are too large for float64: scale the points down.", d)
    return corrected_scores(traces, d)


def corrected_scores_from_sums(n: int, d: int, trace: float, squares: float, fourth_sum: float) -> dict[str, Score]:
    """Return the bias-corrected scores of n points of d dimensions, by slug, from sums over them.

    ``trace`` is tr(scatter), ``squares`` is ||scatter||^2 and ``fourth_sum`` the sum of ||x - mean||^4.
    """
    if (reason := _explain_too_few(n, d)) is not None:
        return corrected_scores(reason, d)
    if not trace > 0:
        return corrected_scores("There is no spread, or it is not finite.", d)
    return corrected_scores(trace_estimates_from_squares(n, squares / trace**2, fourth_sum * (n - 1) / trace**2), d)


def corrected_scores(traces: tuple[float, float] | str, d: int) -> dict[str, Score]:
    """Return the bias-corrected scores by slug; ``traces`` estimate tr(S)^2 and tr(S S), or say why there are none."""
    isoscore = Score.undefined(traces) if isinstance(traces, str) else _isoscore_from_traces(*traces, d)
    if isoscore.value is None:
        reason = str(isoscore.reason).replace("bias-corrected IsoScore", "bias-corrected participation ratio")
        ratio = Score.undefined(reason)
    else:
        ratio = Score(1 + (d - 1) * isoscore.value)
    return {"isoscore_unbiased": isoscore, "participation_ratio_unbiased": ratio}


def trace_estimates(moments: FourthMoments) -> tuple[float, float]:
    """Return unbiased estimates of tr(S)^2 and tr(S S), in units of tr(C)^2, from at least four points."""
    n, scatter = moments.n, moments.scatter
    scatter_trace, scatter_norm = float(scatter.trace()), float(torch.linalg.matrix_norm(scatter))
    is_in_range = 1 / SAFE_NORM < scatter_norm < SAFE_NORM  # outside, squares in the norm may overflow or underflow
    squares = (scatter_norm / scatter_trace) ** 2 if is_in_range else float((scatter / scatter_trace).square().sum())
    covariance_trace = scatter_trace / (n - 1)
    fourth = moments.fourth_sum / (n - 1) / covariance_trace / covariance_trace
    return trace_estimates_from_squares(n, squares, fourth)


def trace_estimates_from_squares(n: int, squares: N, fourth: N) -> tuple[N, N]:
    """Return unbiased estimates of tr(S)^2 and tr(S S), in units of tr(C)^2, from n >= 4 points.

    ``squares`` is ||C||^2 / tr(C)^2 and ``fourth`` Q / tr(C)^2. Up to rounding, 0 <= tr(S S) <= tr(S)^2 in estimates.
    """
    k = (n - 1) / (n * (n - 2) * (n - 3))
    return (k * (2 * squares + (n * n - 3 * n + 1) - n * fourth), k * ((n - 1) * (n - 2) * squares + 1 - n * fourth))


def _isoscore_from_traces(trace_squared: float, trace_of_square: float, d: int) -> Score:
    if min(trace_squared, trace_of_square) < ROUNDING:
        return Score.undefined(
            "The estimate of tr(S)^2 or tr(S S) is not above zero: there are too few points, "
            "or one point has nearly all of the spread."
        )
    return Score((trace_squared / trace_of_square - 1) / (d - 1))


def _explain_too_few(n: int, d: int) -> str | None:
    if n < 4:
        return f"The bias-corrected IsoScore needs at least 4 points; {there_are(n)}."
    if d < 2:
        return f"The bias-corrected IsoScore needs at least 2 dimensions; {there_are(d)}."
    return None


def explain_missing_spread(values: Tensor) -> str | None:
    """Return why a covariance or centered points have no finite spread, in a sentence, or None if they have one."""
    # A finite norm settles both in one pass; squares may overflow.
    if 0 < float(torch.linalg.vector_norm(values)) < inf:
        return None
    if not values.isfinite().all():
        return NOT_FINITE
    if not values.any():
        return "The covariance is zero: all points are equal."
    return None


class BlockProducts:
    """Inner products between the moments of nonempty blocks, from which all leave-out estimates follow.

    They are about a center, the median of the blocks' means, so that a block of huge rows costs no digits when it is
    left out, and in units of the spread.
    """

    def __init__(self, blocks: Sequence[FourthMoments]) -> None:
        self.d = blocks[0].d
        self._n = n = torch.tensor([float(block.n) for block in blocks], dtype=torch.float64)
        means = torch.stack([block.mean.cpu() for block in blocks])
        center = means.median(0).values
        delta = means - center
        scatters = [block.scatter for block in blocks]
        scatter_traces = torch.stack([scatter.trace() for scatter in scatters]).cpu()
        traces = scatter_traces + n * delta.square().sum(1)
        self.reason = explain_missing_spread(traces)
        # The mean squared length of a row, so that estimates are in units of tr(C)^2, as `corrected_scores` expects.
        scale = float(traces.sum() / n.sum()) or 1.0
        delta, scatter_traces, traces = delta / scale**0.5, scatter_traces / scale, traces / scale
        scatter_delta = torch.stack([(scatter @ delta.T.to(scatter)).T.cpu() for scatter in scatters]) / scale
        scatter_products = torch.zeros(len(n), len(n), dtype=torch.float64)
        for a, S in enumerate(scatters):
            for b, R in enumerate(scatters[: a + 1]):
                scatter_products[a, b] = scatter_products[b, a] = (
                    torch.linalg.vecdot(S.flatten(), R.flatten()).cpu() / scale / scale
                )

        # About the center, block a has the sum s_a = n_a delta_a and the second moment M_a = scatter_a + s_a delta_a^T.
        # Below are <M_a, M_b>, s_b^T M_a s_c, s_a.s_b, and the sum of squared distances from rows of a to rows of b.
        sums = n[:, None] * delta
        mean_products = torch.einsum("abd,bd->ab", scatter_delta, sums)
        self._squares = scatter_products + mean_products + mean_products.T + (sums @ delta.T) * (delta @ sums.T)
        self._bilinear_forms = torch.einsum("b,abd,cd->bac", n, scatter_delta, sums)
        self._bilinear_forms += torch.einsum("ba,ac,a->bac", sums @ delta.T, delta @ sums.T, n)
        self._products = sums @ sums.T
        self._center, self._scatter_traces = center / scale**0.5, scatter_traces
        self._delta, self._scatter_delta = delta, scatter_delta
        self._third_sums = torch.stack([block.third_sum.cpu() for block in blocks]) / scale**1.5
        self._fourth_sums = torch.tensor([block.fourth_sum for block in blocks], dtype=torch.float64) / scale / scale
        self._traces = traces
        self._distances = torch.outer(traces, n) + torch.outer(n, traces) - 2 * self._products

    def __len__(self) -> int:
        return len(self._n)

    def scores_without(self, block: int) -> dict[str, Score]:
        """Return the mean share and the bias-corrected scores of independent rows, by slug, without a block."""
        weights = self._n * (torch.arange(len(self)) != block)
        remaining, n = weights > 0, float(weights.sum())
        mean = weights @ self._delta / n
        squared_mean = mean.square().sum()
        trace = self._traces[remaining].sum() - n * squared_mean
        squares = self._squares[remaining][:, remaining].sum() + (n * squared_mean) ** 2
        squares -= 2 / n * self._bilinear_forms[remaining][:, remaining][:, :, remaining].sum()
        offsets = self._delta - mean
        scatter_offsets = (
            self._scatter_delta[torch.arange(len(self)), torch.arange(len(self))] - self._scatter_delta.mT @ weights / n
        )
        squared_offsets = offsets.square().sum(1)
        fourth_sums = (
            self._fourth_sums
            + 4 * (offsets * (self._third_sums + scatter_offsets)).sum(1)
            + squared_offsets * (2 * self._scatter_traces + self._n * squared_offsets)
        )
        mean_energy = (self._center + mean).square().sum()
        share = Score.clipped(float(mean_energy / (trace / n + mean_energy)), 0, 1)
        return {"mean_share": share} | corrected_scores_from_sums(
            int(n), self.d, float(trace), float(squares), float(fourth_sums[remaining].sum())
        )

    def trace_estimates(self, excluded_block: int | None = None) -> tuple[float, float]:
        """Return unbiased estimates of tr(S)^2 and tr(S S) in units of about tr(C)^2, without ``excluded_block``."""
        blocks = [block for block in range(len(self)) if block != excluded_block]
        a, b, c, e = torch.tensor(list(permutations(blocks, 4))).T
        n = self._n
        choices = (n[a] * n[b] * n[c] * n[e]).sum()
        pairs = self._squares[a, b] * n[c] * n[e]
        triples = self._bilinear_forms[b, a, c] * n[e]
        disjoint = self._products[a, b] * self._products[c, e]
        distances = self._distances[a, b] * self._distances[c, e]
        squares = (pairs - 2 * triples + disjoint).sum() / choices
        return float(distances.sum() / (4 * choices)), float(squares)


def scores_across_blocks(products: BlockProducts, excluded_block: int | None = None) -> dict[str, Score]:
    """Return the bias-corrected IsoScore and participation ratio, by slug, of all blocks but ``excluded_block``.

    Each four rows come from four distinct blocks. Undefined for fewer than four blocks or two dimensions, and where
    ``corrected_scores_from_moments`` is.
    """
    blocks_left = len(products) - (excluded_block is not None)
    if blocks_left < 4:
        return corrected_scores(
            "The bias correction needs at least 4 independent rows, where exact duplicates, and rows of one group,"
            f" count once; {there_are(blocks_left)}.",
            products.d,
        )
    if products.reason is not None:
        return corrected_scores(products.reason, products.d)
    return corrected_scores(products.trace_estimates(excluded_block), products.d)
