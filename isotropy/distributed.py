"""Differentiable sums and rows over all processes of a training run that share one loss.

A penalty that is not a mean over rows, such as IsoScore* of a union of clouds, must see the whole batch. Every process
computes it from the combined values, and gradients are summed over the processes. The sum is the gradient that one
process with all rows would have, times the number of processes, by which ``DistributedDataParallel`` divides. Every
process must call forward and backward. Without a process group, values stay as they are. We do not use
``torch.distributed.nn.functional``, because it is deprecated.
"""

from typing import Any

import torch
from torch import Tensor, distributed


def has_process_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def summed(x: Tensor) -> Tensor:
    """Return the sum of ``x`` over the processes, differentiable. Its shape must be the same in all."""
    if not has_process_group():
        return x
    total: Tensor = _Summed.apply(x)  # type: ignore[no-untyped-call]
    return total


def gathered(x: Tensor) -> Tensor:
    """Return the rows of all processes [sum of n, ...] in rank order, differentiable.

    Numbers of rows may differ or be 0. Each process then holds all rows: use it for batches of vectors, not all tokens.
    """
    if not has_process_group():
        return x
    rows: Tensor = _Gathered.apply(x)  # type: ignore[no-untyped-call]
    return rows


def max_over_processes(x: Tensor) -> Tensor:
    """Return the elementwise maximum of ``x`` over the processes, without a gradient."""
    x = x.detach()
    if not has_process_group():
        return x
    x = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(x, op=distributed.ReduceOp.MAX)
    return x


class _Summed(torch.autograd.Function):
    """Sum over the processes. Every process uses the sum, so the gradients are added up too."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return _sum_over_processes(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return _sum_over_processes(gradient)


class _Gathered(torch.autograd.Function):
    """Rows of all processes. The backward sums their gradients and returns those of this process's rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        sizes = torch.zeros(distributed.get_world_size(), dtype=torch.int64, device=x.device)
        sizes[distributed.get_rank()] = len(x)
        counts: list[int] = _sum_over_processes(sizes).tolist()
        padded = x.new_zeros(max(counts), *x.shape[1:])
        padded[: len(x)] = x
        parts = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(parts, padded)
        ctx.start, ctx.length = sum(counts[: distributed.get_rank()]), len(x)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _sum_over_processes(gradient)[ctx.start : ctx.start + ctx.length]


def _sum_over_processes(x: Tensor) -> Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(x)
    return x
