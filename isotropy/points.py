"""Clouds of points: what counts as one, and how to take one from a transformer's hidden states."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LENGTH_ROWS = 256  # Points that are turned into float64 at once


def require_points(x: Tensor, d: int | None = None) -> None:
    """Check that ``x`` is a cloud of points [n, d] of a floating dtype.

    Raises:
        ValueError: ``x`` is no tensor, not a matrix, not floating, or has another number of dimensions than ``d``.

    """
    if not isinstance(x, Tensor):
        raise ValueError(
            f"Expected points as a torch tensor, got {type(x).__name__}: of a numpy array give torch.from_numpy(x)."
        )
    if x.ndim != 2 or not x.is_floating_point() or (d is not None and x.shape[1] != d):
        raise ValueError(
            f"Expected points as a floating tensor [n, {'d' if d is None else d}], got {list(x.shape)} of "
            f"{x.dtype}: give one point a row and one dimension a column."
        )


def at_least_float32(x: Tensor) -> Tensor:
    """Return ``x`` in float32 if it has half precision, in which squares overflow, else unchanged."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def in_float64(x: Tensor) -> Tensor:
    """Return ``x`` in float64, on the CPU if the accelerator (MPS) has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def scaled(x: Tensor, ordinary: float = 1.0) -> tuple[Tensor, float]:
    """Return points [n, d] over a power of two, exactly, so that their squares stay in range, and that power.

    The power is a constant to the gradient.

    Args:
        x: [n, d].
        ordinary: points whose greatest coordinate lies between its inverse and it are returned themselves, no copy.

    Raises:
        ValueError: ``x`` holds NaN or infinity.

    """
    fixed = x.detach()
    largest = max(-float(fixed.min()), float(fixed.max())) if x.numel() else 0.0
    if not math.isfinite(largest):
        raise ValueError(
            "Expected finite points, got NaN or infinity: leave those rows out, or, in training, lower the learning "
            "rate."
        )
    if 1 / ordinary <= largest <= ordinary:
        return x, 1.0
    scale = max(math.ldexp(0.5, math.frexp(largest)[1]), torch.finfo(x.dtype).tiny)
    return x / scale, scale


def lengths(x: Tensor) -> Tensor:
    """Return the norms of points [n, d], float64 [n]."""
    # By few rows that stay in the cache: a norm told to sum in float64 takes eight times as long on a CPU.
    norms = [torch.linalg.vector_norm(rows.double(), dim=1) for rows in torch.split(x, LENGTH_ROWS)]
    return torch.cat(norms)


def draw_tokens(attention_mask: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """Return the mask of a random part of the tokens: fewer points for a cheaper penalty, of the same mean.

    Args:
        attention_mask: [batch, tokens], zero where a token is padding, which is never drawn.
        fraction: of the other tokens, in (0, 1]; their number is rounded up. 1 draws nothing at random.
        generator: of the CPU, so that every device draws the same tokens.

    Returns:
        A mask like ``attention_mask``, for ``union_of_layers``.

    Raises:
        ValueError: the fraction is outside (0, 1].

    """
    if not 0 < fraction <= 1:
        raise ValueError(f"Expected a fraction of tokens above 0 and at most 1, got {fraction}: 1 takes every token.")
    if fraction == 1:
        return attention_mask
    tokens = attention_mask.flatten().nonzero().squeeze(1)
    drawn = torch.randperm(len(tokens), generator=generator)[: math.ceil(fraction * len(tokens))]
    mask = torch.zeros_like(attention_mask).flatten()
    mask[tokens[drawn.to(tokens.device)]] = 1
    return mask.view_as(attention_mask)


def union_of_layers(
    hidden_states: Sequence[Tensor],
    attention_mask: Tensor,
    layers: Sequence[int] | None = None,
    *,
    include_padding: bool = False,
) -> Tensor:
    """Return the tokens of several layers as one cloud, the points of I-STAR (Rudman & Eickhoff 2024).

    Args:
        hidden_states: the ``hidden_states`` of a transformers model, 1 + L tensors [batch, tokens, d]; the
            first, the embedding layer, is always left out.
        attention_mask: [batch, tokens], zero where a token is padding.
        layers: numbers of the layers to take, 1 to L; None takes all.
        include_padding: keep padding, which is not data, to reproduce the reference code, which does.

    Returns:
        The points [layers x kept tokens, d], layer after layer; gradients flow through.

    Raises:
        ValueError: a layer does not exist, none is asked for, or the mask does not fit the hidden states.

    """
    last = len(hidden_states) - 1
    chosen = range(1, last + 1) if layers is None else layers
    if not chosen or not all(1 <= layer <= last for layer in chosen):
        raise ValueError(
            f"Expected layers from 1 to {last} (0 is the embedding layer, left out), got {list(chosen)}: "
            "choose among the layers of the model, and call it with output_hidden_states=True."
        )
    tokens = hidden_states[chosen[0]].shape[:2]
    if attention_mask.shape != tokens:
        raise ValueError(
            f"Expected an attention mask {list(tokens)} like the hidden states, got "
            f"{list(attention_mask.shape)}: pass the mask of the same batch."
        )
    if include_padding:
        return torch.cat([hidden_states[layer].flatten(0, 1) for layer in chosen])
    # One nonzero() for all layers, because on a GPU each call waits for the device.
    positions = attention_mask.flatten().nonzero().squeeze(1)
    return torch.cat([hidden_states[layer].flatten(0, 1).index_select(0, positions) for layer in chosen])
