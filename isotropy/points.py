"""Checks and conversions of points [n, d], and points from a transformer's hidden states."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

LENGTH_ROWS = 256  # Points converted to float64 at once


def require_points(x: Tensor, d: int | None = None) -> None:
    """Raise ValueError unless ``x`` is a floating tensor [n, d]."""
    if not isinstance(x, Tensor):
        raise ValueError(
            f"Expected points as a torch tensor, got {type(x).__name__}: for a numpy array use torch.from_numpy(x)."
        )
    if x.ndim != 2 or not x.is_floating_point() or (d is not None and x.shape[1] != d):
        raise ValueError(
            f"Expected points as a floating tensor [n, {'d' if d is None else d}], got {list(x.shape)} of "
            f"{x.dtype}: use one row per point and one column per dimension."
        )


def at_least_float32(x: Tensor) -> Tensor:
    """Return ``x`` in float32 if it has half precision, in which squares overflow, else unchanged."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def in_float64(x: Tensor) -> Tensor:
    """Return ``x`` in float64, on the CPU if the accelerator (MPS) has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def require_finite(value: Tensor, cause: str = "NaN or infinity") -> None:
    """Raise ValueError if a 0-d value on the CPU is not finite; a check on an accelerator would wait for its work."""
    if value.device.type == "cpu" and not value.isfinite():
        raise ValueError(
            f"Expected finite points, got {cause}: lower the learning rate, or look for the layer that diverges."
        )


def scaled(x: Tensor, max_unscaled: float = 1.0) -> tuple[Tensor, float]:
    """Return points [n, d] divided by a power of two so that squares stay in range, and that power of two.

    The division is exact. Points whose largest coordinate lies between 1 / ``max_unscaled`` and ``max_unscaled`` are
    returned without a copy. Raises ValueError for NaN or infinity.
    """
    values = x.detach()
    largest = max(-float(values.min()), float(values.max())) if x.numel() else 0.0
    if not math.isfinite(largest):
        raise ValueError(
            "Expected finite points, got NaN or infinity: leave those rows out. In training, lower the learning rate."
        )
    if 1 / max_unscaled <= largest <= max_unscaled:
        return x, 1.0
    scale = max(math.ldexp(0.5, math.frexp(largest)[1]), torch.finfo(x.dtype).tiny)
    return x / scale, scale


def lengths(x: Tensor) -> Tensor:
    """Return the Euclidean norm of each point, float64 [n]."""
    # Few rows at a time fit in the cache: on a CPU, vector_norm with dtype=float64 takes eight times as long.
    norms = [torch.linalg.vector_norm(rows.double(), dim=1) for rows in torch.split(x, LENGTH_ROWS)]
    return torch.cat(norms)


def draw_tokens(attention_mask: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """Return a mask like ``attention_mask`` [batch, tokens] of a random fraction of tokens, for ``union_of_layers``.

    ``fraction`` is in (0, 1], and the number of tokens is rounded up; padding is never drawn. ``generator`` is on the
    CPU, so that every device draws the same tokens. Raises ValueError for another fraction.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"Expected a fraction of tokens above 0 and at most 1, got {fraction}: 1 takes every token.")
    if fraction == 1:
        return attention_mask
    tokens = token_positions(attention_mask)
    drawn_indices = torch.randperm(len(tokens), generator=generator)[: math.ceil(fraction * len(tokens))]
    mask = torch.zeros_like(attention_mask).flatten()
    mask[tokens[drawn_indices.to(tokens.device)]] = 1
    return mask.view_as(attention_mask)


def token_positions(attention_mask: Tensor) -> Tensor:
    """Return the positions of tokens in a flattened mask. On a GPU it waits: call it once for all layers."""
    return attention_mask.flatten().nonzero().squeeze(1)


def require_mask(attention_mask: Tensor, states: Tensor) -> None:
    """Raise ValueError unless the mask [batch, tokens] fits hidden states [batch, tokens, d]."""
    if attention_mask.shape != states.shape[:2]:
        raise ValueError(
            f"Expected an attention mask {list(states.shape[:2])} like the hidden states, got "
            f"{list(attention_mask.shape)}: pass the mask of the same batch."
        )


def union_of_layers(
    hidden_states: Sequence[Tensor],
    attention_mask: Tensor,
    layers: Sequence[int] | None = None,
    *,
    include_padding: bool = False,
) -> Tensor:
    """Return the tokens of several layers as one cloud [layers x tokens, d], as I-STAR does (Rudman & Eickhoff 2024).

    ``hidden_states`` are 1 + L tensors [batch, tokens, d], the embedding layer first, which is left out. ``layers`` are
    from 1 to L; None takes all. ``include_padding`` keeps padding, as the reference code does. Raises ValueError for a
    layer that does not exist, no layer, or a mask of another shape.
    """
    n_layers = len(hidden_states) - 1
    selected_layers = range(1, n_layers + 1) if layers is None else layers
    if not selected_layers or not all(1 <= layer <= n_layers for layer in selected_layers):
        raise ValueError(
            f"Expected layers from 1 to {n_layers} (0 is the embedding layer, left out), got {list(selected_layers)}: "
            "choose among the layers of the model, and call it with output_hidden_states=True."
        )
    require_mask(attention_mask, hidden_states[selected_layers[0]])
    if include_padding:
        return torch.cat([hidden_states[layer].flatten(0, 1) for layer in selected_layers])
    positions = token_positions(attention_mask)
    return torch.cat([hidden_states[layer].flatten(0, 1).index_select(0, positions) for layer in selected_layers])
