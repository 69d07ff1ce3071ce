"""One vector for each text, of the vectors of its tokens."""

import torch
from torch import Tensor

from app.db.models import Pooling


def pool(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    """Return a vector for each text: that of its first token, the mean, or that of its last token.

    Padding counts nowhere, whether it stands before the tokens or behind them.

    Args:
        states: [batch, tokens, d].
        attention_mask: [batch, tokens], zero where a token is padding; no text is all padding.
        pooling: which of the three.

    Returns:
        [batch, d].

    """
    real = attention_mask.bool()
    if pooling is Pooling.MEAN:
        # Not multiplied by the mask: what a model makes of padding may be NaN.
        total = states.masked_fill(~real.unsqueeze(-1), 0).sum(dim=1)
        return total / real.sum(dim=1, keepdim=True)
    if pooling is Pooling.FIRST:
        place = real.int().argmax(dim=1)
    else:
        place = real.shape[1] - 1 - real.flip(1).int().argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), place]
