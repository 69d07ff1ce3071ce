"""I-STAR by the bias-corrected IsoScore, which needs neither a shrinkage covariance nor zeta."""

from collections.abc import Sequence

import torch
from torch import Tensor

from isotropy.distributed import gathered
from isotropy.points import at_least_float32, in_float64, require_points, scaled
from isotropy.spectrum import centre
from isotropy.unbiased import ROUNDING, estimates


class UnbiasedIStar(torch.nn.Module):
    """Penalty lam (1 - mean over layers of the bias-corrected IsoScore), to be added to the task's loss.

    lam > 0 makes points more isotropic, lam < 0 less. IsoScore of the n points of a batch is too low by much unless n
    is many times d; I-STAR (Rudman & Eickhoff 2024) makes up for it by shrinking their covariance toward that of many
    points, stale by up to an epoch, by a zeta to be chosen. Here tr(S)^2 and tr(S S) are estimated without bias from
    the batch alone (``isotropy.unbiased``), so there is no matrix to refresh and no zeta.

    **Rows must be independent draws**: one vector for each text, such as the mean of its tokens. The estimates leave
    out products of a row with itself; tokens of one text depend on each other nearly as a row does on itself.

    **The score may leave [0, 1].** Both estimates are means of terms of which 0 <= tr(S S) <= tr(S)^2 holds, so the
    score is never below 0. But tr(S S) of few rows may come out below tr(S)^2 / d, the least that any covariance can
    have, and a score that divides by it explodes as it nears 0: four points at equal distances have 0. There,
    with b = tr(S S) / tr(S)^2 < 1 / d, the curve 1 / b of the score is replaced by its tangent at 1 / d. So the score
    stays within (2 d - 1) / (d - 1), and its slope in b is nowhere steeper than where all directions are equal.
    Cutting it off at 1 would be bounded too, but would drop the batches that err to one side alone: the penalty of an
    isotropic cloud would not average to 0. Along the tangent the errors of both sides cancel, but for those of second
    order. Up to 1 it is exactly ``isoscore_unbiased``, with that one's bias of order 1 / n.

    Where nothing can be told, with fewer than four rows, equal rows, or spread in no two pairs without a row in
    common, the score is 0 by convention, as that of ``IStar``, and its gradient 0.

    Example::

        istar = UnbiasedIStar(lam=1.0)
        mask = batch["attention_mask"][..., None]
        pooled = [(layer * mask).sum(1) / mask.sum(1) for layer in output.hidden_states[1:]]
        loss = output.loss + istar(pooled)

    Args:
        lam: strength, of either sign.
        across_processes: take the rows of all processes as one batch (see ``isotropy.distributed``).

    """

    def __init__(self, lam: float, *, across_processes: bool = False) -> None:
        super().__init__()
        self.lam = lam
        self.across_processes = across_processes

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """Return the penalty on one cloud [n, d] for each layer: 0-d, float64 if they are, else float32.

        Between lam and -lam d / (d - 1). In n d min(n, d) operations for each layer, computed in float64, since the
        estimates are small differences of sums.

        Raises:
            ValueError: no layer, or one that is not a floating tensor [n, d] of at least two dimensions or not finite.

        """
        if len(layers) == 0:
            raise ValueError("Expected the points of at least 1 layer, got none: give a sequence of tensors [n, d].")
        scores = torch.stack([self._score(points) for points in layers])
        return self.lam * (1 - scores.mean())

    def extra_repr(self) -> str:
        return f"lam={self.lam}, across_processes={self.across_processes}"

    def _score(self, points: Tensor) -> Tensor:
        require_points(points)
        if points.shape[1] < 2:
            raise ValueError(
                f"Expected points of at least 2 dimensions, got {points.shape[1]}: isotropy compares dimensions."
            )
        x = at_least_float32(points)
        score = _bounded_score(in_float64(gathered(x) if self.across_processes else x))
        return score.to(x.device, x.dtype)


def _bounded_score(x: Tensor) -> Tensor:
    """Return the bias-corrected IsoScore of float64 points [n, d], 0-d, continued by its tangent above 1."""
    n, d = x.shape
    x, _ = scaled(x)
    undefined = x[:0].sum()  # 0, whose gradient is 0 for every point
    if n < 4:
        return undefined
    shift, _ = centre(x.detach())
    y = x - shift  # equal points become exactly 0
    size = float(y.detach().abs().max())
    if size == 0:
        return undefined
    y = y / size
    y = y - y.mean(0)
    norms = y.square().sum(1)
    trace = norms.sum()
    products = y @ y.T if n < d else y.T @ y
    trace_squared, squares = estimates(n, products.square().sum() / trace**2, (n - 1) * norms.square().sum() / trace**2)
    if float(trace_squared.detach()) < ROUNDING:
        return undefined
    b = squares / trace_squared
    within = b.clamp(min=1 / d)
    return (1 / within + d * d * (within - b) - 1) / (d - 1)
