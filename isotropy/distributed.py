"""Sums and rows of all processes of a training run that share one loss, with their gradients.

Each process holds a part of a batch. A penalty that is no mean over rows, as IsoScore* of a union of clouds, has to see
all of it: averaging the processes' own values is another function. Here the values of all come together, every process
computes the same penalty from them, and in the backward the gradients of all are added.

So the gradient that a process gets for its rows is that of one process with all rows, times the number of processes.
``DistributedDataParallel`` averages the parameters' gradients over the processes, which takes that factor out: trained
with it, a run of several processes takes the steps of one. Every process must call forward and backward, or the others
wait for it. Without a process group (``torch.distributed.init_process_group``) values stay as they are.

Made of autograd functions of our own, as those of ``torch.distributed.nn.functional`` are deprecated and need tensors
of one shape.
"""

from typing import Any

import torch
from torch import Tensor, distributed


def is_shared() -> bool:
    """Return whether this process belongs to a group."""
    return distributed.is_available() and distributed.is_initialized()


def summed(x: Tensor) -> Tensor:
    """Sum ``x`` over the processes, differentiably. Its shape must be the same in all."""
    if not is_shared():
        return x
    total: Tensor = _Summed.apply(x)  # type: ignore[no-untyped-call]
    return total


def gathered(x: Tensor) -> Tensor:
    """Return the rows of all processes, [sum of n, ...] of [n, ...], in the order of their ranks; differentiable.

    The numbers of rows may differ, and be 0; the other dimensions and the dtype may not. Each process holds all rows
    then, so this is for batches of vectors, not for all tokens of all layers.
    """
    if not is_shared():
        return x
    rows: Tensor = _Gathered.apply(x)  # type: ignore[no-untyped-call]
    return rows


def greatest(x: Tensor) -> Tensor:
    """Return the elementwise maximum of ``x`` over the processes, without a gradient."""
    x = x.detach()
    if not is_shared():
        return x
    x = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(x, op=distributed.ReduceOp.MAX)
    return x


class _Summed(torch.autograd.Function):
    """Sum over the processes. Every process uses the sum, so the gradients are added up too."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return _sum(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return _sum(gradient)


class _Gathered(torch.autograd.Function):
    """Gather rows of all processes; the backward sums gradients and returns those of this process's rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        sizes = torch.zeros(distributed.get_world_size(), dtype=torch.int64, device=x.device)
        sizes[distributed.get_rank()] = len(x)
        counts: list[int] = _sum(sizes).tolist()
        padded = x.new_zeros(max(counts), *x.shape[1:])
        padded[: len(x)] = x
        parts = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(parts, padded)
        ctx.start, ctx.length = sum(counts[: distributed.get_rank()]), len(x)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _sum(gradient)[ctx.start : ctx.start + ctx.length]


def _sum(x: Tensor) -> Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(x)
    return x
