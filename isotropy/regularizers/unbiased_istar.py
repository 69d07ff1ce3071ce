"""I-STAR by the bias-corrected IsoScore, which needs neither a shrinkage covariance nor zeta."""

from collections.abc import Sequence

import torch
from torch import Tensor

from isotropy.distributed import gathered
from isotropy.points import at_least_float32, in_float64, require_points, scaled
from isotropy.spectrum import centre
from isotropy.unbiased import ROUNDING, trace_estimates_from_squares


class UnbiasedIStar(torch.nn.Module):
    """Penalty lam (1 - mean over layers of the bias-corrected IsoScore), to be added to the task's loss.

    lam > 0 makes points more isotropic, lam < 0 less. I-STAR (Rudman & Eickhoff 2024) corrects the low IsoScore of
    small batches by shrinkage; here tr(S)^2 and tr(S S) are estimated without bias from the batch
    (``isotropy.unbiased``), with neither a shrinkage covariance nor zeta. **Rows must be independent draws**: one
    vector for each text.

    **The score may exceed 1**, because tr(S S) of few rows may fall below tr(S)^2 / d. There the term 1 / b of the
    score, b = tr(S S) / tr(S)^2, is continued by its tangent at b = 1 / d, so that the score is at most
    (2 d - 1) / (d - 1). Clipping at 1 would
    bias the mean penalty; along the tangent errors of both signs cancel to second order. Up to 1 it is
    ``isoscore_unbiased``. With fewer than four rows or without spread, score and gradient are 0.

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

        Takes n d min(n, d) operations per layer in float64. Raises ValueError for no layer, d < 2, NaN or infinity.
        """
        if len(layers) == 0:
            raise ValueError("Expected the points of at least 1 layer, got none: give a sequence of tensors [n, d].")
        scores = []
        for points in layers:
            require_points(points)
            if (d := points.shape[1]) < 2:
                raise ValueError(f"Expected points of at least 2 dimensions, got {d}: isotropy compares dimensions.")
            x = at_least_float32(points)
            score = _bounded_score(in_float64(gathered(x) if self.across_processes else x))
            scores.append(score.to(x.device, x.dtype))
        return self.lam * (1 - torch.stack(scores).mean())

    def extra_repr(self) -> str:
        return f"lam={self.lam}, across_processes={self.across_processes}"


def _bounded_score(x: Tensor) -> Tensor:
    """Return the bias-corrected IsoScore of float64 points [n, d], 0-d, continued by its tangent above 1."""
    n, d = x.shape
    x, _ = scaled(x)
    zero_score = x[:0].sum()  # 0, whose gradient is 0 for every point
    if n < 4:
        return zero_score
    shift, _ = centre(x.detach())
    y = x - shift  # equal points become exactly 0
    size = float(y.detach().abs().max())
    if size == 0:
        return zero_score
    y = y / size
    y = y - y.mean(0)
    squared_norms = y.square().sum(1)
    trace = squared_norms.sum()
    products = y @ y.T if n < d else y.T @ y
    trace_squared, squares = trace_estimates_from_squares(
        n, products.square().sum() / trace**2, (n - 1) * squared_norms.square().sum() / trace**2
    )
    if float(trace_squared.detach()) < ROUNDING:
        return zero_score
    b = squares / trace_squared
    clamped = b.clamp(min=1 / d)
    return (1 / clamped + d * d * (clamped - b) - 1) / (d - 1)
