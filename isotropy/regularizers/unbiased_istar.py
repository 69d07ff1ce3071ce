"""I-STAR by the bias-corrected IsoScore, which needs neither a shrinkage covariance nor zeta."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from isotropy.distributed import gathered
from isotropy.points import at_least_float32, in_float64, require_finite, require_points
from isotropy.regularizers.penalty import Penalty
from isotropy.unbiased import ROUNDING, trace_estimates_from_squares


class UnbiasedIStar(Penalty):
    """Penalty lam (1 - mean over layers of the bias-corrected IsoScore), to be added to the task's loss.

    lam > 0 makes points more isotropic, lam < 0 less. I-STAR (Rudman & Eickhoff 2024) corrects the low IsoScore of
    small batches by shrinkage; here tr(S)^2 and tr(S S) are estimated without bias from the batch
    (``isotropy.unbiased``), with neither a shrinkage covariance nor zeta. **Rows must be independent draws**: one
    vector for each text.

    **The score may exceed 1**, because tr(S S) of few rows may fall below tr(S)^2 / d. There the term 1 / b of the
    score, b = tr(S S) / tr(S)^2, is continued by its tangent at b = 1 / d, so that the score is at most
    (2 d - 1) / (d - 1). Clipping at 1 would bias the mean penalty; on the tangent, errors of both signs cancel to
    second order. A score up to 1 is ``isoscore_unbiased``. With fewer than four rows, without spread, or if the
    estimate of tr(S)^2 is not above zero, score and gradient are 0.

    Example::

        istar = UnbiasedIStar(lam=1.0)
        mask = batch["attention_mask"][..., None]
        pooled = [(layer * mask).sum(1) / mask.sum(1) for layer in output.hidden_states[1:]]
        loss = output.loss + istar(pooled)
    """

    def __init__(self, lam: float, *, across_processes: bool = False) -> None:
        super().__init__()
        self.lam = lam
        self.across_processes = across_processes

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """Return the penalty on one cloud [n, d] per layer: 0-d, from -lam d / (d - 1) to lam, at least float32.

        Takes n d min(n, d) operations per layer in float64. Raises ValueError for no layer, d < 2 and, on the CPU, NaN
        or infinity.
        """
        if len(layers) == 0:
            raise ValueError("Expected the points of at least 1 layer, got none: give a sequence of tensors [n, d].")
        for points in layers:
            require_points(points)
            if (d := points.shape[1]) < 2:
                raise ValueError(f"Expected points of at least 2 dimensions, got {d}: isotropy compares dimensions.")
        have_one_shape = len({points.shape for points in layers}) == 1
        scores = torch.cat([self._scores(same) for same in ([layers] if have_one_shape else [[x] for x in layers])])
        penalty: Tensor = self.lam * (1 - scores.mean())
        require_finite(penalty)
        return penalty

    def _scores(self, layers: Sequence[Tensor]) -> Tensor:
        """Return the scores [L] of L layers of one shape."""
        x = at_least_float32(torch.stack(list(layers), dim=1))
        rows = in_float64(gathered(x) if self.across_processes else x)
        scores: Tensor = _BoundedScores.apply(rows.transpose(0, 1))  # type: ignore[no-untyped-call]
        return scores.to(x)


class _BoundedScores(torch.autograd.Function):
    """The bias-corrected IsoScores [L] of float64 clouds [L, n, d], continued by their tangents above 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        _, n, d = x.shape
        if n < 4:
            ctx.save_for_backward(torch.zeros_like(x))
            return x.sum((1, 2)) * 0  # so that NaN stays NaN
        # Clamped, so that equal points become exactly 0.
        y = x - x.mean(1, keepdim=True).clamp(x.amin(1, keepdim=True), x.amax(1, keepdim=True))
        size = y.abs().amax((1, 2), keepdim=True)
        size = size.masked_fill(size == 0, 1)
        y /= size
        y -= y.mean(1, keepdim=True)
        squared_norms = y.square().sum(2, keepdim=True)
        trace = squared_norms.sum((1, 2), keepdim=True)
        is_flat = trace == 0
        trace = trace.masked_fill(is_flat, 1)
        products = y @ y.mT if n < d else y.mT @ y
        squares = products.square().sum((1, 2), keepdim=True) / trace**2
        fourth = squared_norms.square().sum(1, keepdim=True) / trace**2
        trace_squared, estimate = trace_estimates_from_squares(n, squares, (n - 1) * fourth)
        b = estimate / trace_squared
        clamped = b.clamp(min=1 / d)
        score = (1 / clamped + d * d * (clamped - b) - 1) / (d - 1)
        is_undefined = is_flat | (trace_squared < ROUNDING)  # not where it is NaN
        # By the chain rule, with squares = ||products||^2 / tr^2, fourth = sum ||y||^4 / tr^2 and tr = sum ||y||^2.
        k = (n - 1) / (n * (n - 2) * (n - 3))
        b_slope = -1 / ((d - 1) * clamped**2 * trace_squared)
        squares_slope = b_slope * k * ((n - 1) * (n - 2) - 2 * b)
        fourth_slope = b_slope * k * n * (n - 1) * (b - 1)
        gradient = 4 * squares_slope / trace**2 * (products @ y if n < d else y @ products)
        gradient += 4 * fourth_slope / trace**2 * squared_norms * y
        gradient -= 4 * (squares_slope * squares + fourth_slope * fourth) / trace * y
        gradient -= gradient.mean(1, keepdim=True)
        ctx.save_for_backward((gradient / size).masked_fill(is_undefined, 0))
        return score.masked_fill(is_undefined, 0).flatten()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (score_gradient,) = ctx.saved_tensors
        product: Tensor = gradient[:, None, None] * score_gradient
        return product
