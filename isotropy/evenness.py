"""Evenness of a spectrum, which is IsoScore*, as one differentiable function whose gradient is in closed form.

With T = tr(S) and F = ||S||^2 the score is (T^2 / F - 1) / (d - 1), and its derivative by S is
2 T / F (I - T / F S) / (d - 1). So value and gradient take one matrix product of the points each. Neither reads a value
back from an accelerator, which would wait for all of its work.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from isotropy.distributed import max_over_processes, summed
from isotropy.points import require_finite, require_points
from isotropy.spectrum import SHIFT_ROWS, gram, shrink


class _Settings(NamedTuple):
    zeta: float
    is_centered: bool
    across_processes: bool
    product_dtype: torch.dtype


def evenness(
    points: Tensor,
    mask: Tensor | None = None,
    *,
    zeta: float = 0.0,
    target: Tensor | None = None,
    is_centered: bool = True,
    across_processes: bool = False,
    product_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return IsoScore* of points [n, d], 0-d in [0, 1], and their covariance [d, d]; ``mask`` [n] selects points.

    Both are at least float32; only the score is differentiable, and only once. ``target`` [d, d] is the shrinkage
    covariance; None does not shrink. Without ``is_centered``, the sum of x x^T replaces the covariance. Factors of
    matrix products are rounded to ``product_dtype`` and their products summed in float32; by default, only points in
    half precision on an accelerator are rounded, to bfloat16. Points without spread score 0 with gradient 0. Raises
    ValueError for no points, d < 2 and, on the CPU, NaN or infinity; elsewhere the score is NaN.
    """
    require_points(points)
    if (d := points.shape[1]) < 2:
        raise ValueError(f"Expected points of at least 2 dimensions, got {d}: isotropy compares dimensions.")
    if product_dtype is None:
        is_rounded = points.itemsize == 2 and points.device.type != "cpu"
        product_dtype = torch.bfloat16 if is_rounded else torch.promote_types(points.dtype, torch.float32)
    settings = _Settings(zeta, is_centered, across_processes, product_dtype)
    score, S = _Evenness.apply(points, mask, target, settings)  # type: ignore[no-untyped-call]
    require_finite(score, f"NaN, infinity or squares beyond {S.dtype}")
    return score, S


class _Evenness(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, points: Tensor, mask: Tensor | None, target: Tensor | None, settings: _Settings
    ) -> tuple[Tensor, Tensor]:
        d, dtype = points.shape[1], torch.promote_types(settings.product_dtype, torch.float32)
        with torch.autocast(points.device.type, enabled=False):
            factor = points.to(torch.promote_types(points.dtype, torch.float32))
            if settings.is_centered:
                factor = factor - _shift(factor, mask, across_processes=settings.across_processes)
            factor = _rounded(factor if mask is None else factor.masked_fill(~mask[:, None], 0), settings.product_dtype)
            sums = points.new_empty(d + 1, d, dtype=dtype)  # of x x^T, and below it of x
            sums[:d] = gram(factor) if factor.dtype == dtype else torch.mm(factor.T, factor, out_dtype=dtype)
            sums[d] = factor.sum(0, dtype=dtype)
            n = sums.new_full((), len(points)) if mask is None else mask.sum().to(dtype)
            if settings.across_processes:
                sums, n = summed(sums), summed(n)
            if n.device.type == "cpu" and n == 0:
                extent = " in all processes" if settings.across_processes else ""
                raise ValueError(
                    f"Expected at least 1 point{extent}, got 0: skip batches in which every token is masked."
                )
            S_X, offset, divisor = sums[:d], torch.zeros_like(sums[d]), torch.ones_like(n)
            if settings.is_centered:
                offset, divisor = sums[d] / n, (n - 1).clamp(min=1)
                S_X = S_X.sub_(n * torch.outer(offset, offset)).div_(divisor)
            S = S_X if target is None or settings.zeta == 0 else shrink(S_X, target.to(S_X), settings.zeta)
            # With so small a trace the gradient would overflow, so score and gradient are 0. NaN stays NaN.
            trace = S.trace()
            is_flat = trace <= torch.finfo(dtype).tiny / torch.finfo(dtype).eps
            # Divide by the trace first, because fourth powers of the points could leave the range of float32.
            trace = trace.masked_fill(is_flat, 1)
            S = S / trace
            squares = S.square().sum().masked_fill(is_flat, 1)
            coefficient = 4 * (1 - settings.zeta) / ((d - 1) * divisor * trace * squares)
        ctx.settings, ctx.dtype = settings, points.dtype
        ctx.save_for_backward(factor, mask, offset, S / squares, coefficient.masked_fill(is_flat, 0))
        ctx.mark_non_differentiable(S_X)
        # Only the value is clamped: the gradient must not vanish where rounding takes the value out of [0, 1].
        return ((1 / squares - 1) / (d - 1)).clamp(0, 1), S_X

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        factor, mask, offset, S, coefficient = ctx.saved_tensors
        if ctx.settings.across_processes:  # every process uses the score, so the gradients add up
            gradient = summed(gradient)
        with torch.autocast(S.device.type, enabled=False):
            scale = gradient * coefficient
            matrix = S * -scale
            matrix.diagonal().add_(scale)
            matrix = _rounded(matrix, ctx.settings.product_dtype)
            offset_row = offset @ matrix.to(S.dtype)
            if factor.dtype == S.dtype:
                product = torch.addmm(-offset_row, factor, matrix)
            else:
                product = torch.mm(factor, matrix, out_dtype=S.dtype).sub_(offset_row)
            if mask is not None:
                product.masked_fill_(~mask[:, None], 0)
        return product.to(ctx.dtype), None, None, None


def _shift(x: Tensor, mask: Tensor | None, *, across_processes: bool) -> Tensor:
    """Return a shift [d] near the mean of the points, which keeps the digits of the spread: see ``shift_near_mean``.

    Subtracting it makes constant dimensions exactly zero.
    """
    step = max(len(x) // SHIFT_ROWS, 1) | 1
    rows, is_point = x[::step], x.new_ones(len(x), dtype=torch.bool) if mask is None else mask
    is_point = is_point[::step, None]
    no_row = rows.new_full((1, rows.shape[1]), -torch.inf)
    largest = torch.cat([rows.masked_fill(~is_point, -torch.inf), no_row]).amax(0)
    if across_processes:
        largest = max_over_processes(largest)
    largest = largest.masked_fill(largest.isneginf(), 0)  # where the mask selects no row of the sample
    total, n = (rows - largest).masked_fill(~is_point, 0).sum(0), is_point.sum()
    if across_processes:
        total, n = summed(total), summed(n)
    return largest + total / n.clamp(min=1)


def _rounded(factor: Tensor, dtype: torch.dtype) -> Tensor:
    """Round a factor to ``dtype``. On a CPU, return it in at least float32, so that products are summed in float32."""
    rounded = factor.to(dtype)
    return rounded if rounded.is_cuda else rounded.to(torch.promote_types(dtype, torch.float32))
