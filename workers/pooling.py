"""One vector for each text, of the vectors of its tokens."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.db.models import Pooling
from isoscope.hidden_states import hidden_states_of, looking_at, mean_of_tokens


def pool(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    """Return a vector for each text: that of its first token, the mean, or that of its last token.

    Padding counts nowhere, whether it stands before the tokens or behind them; special tokens are tokens.

    Args:
        states: [batch, tokens, d].
        attention_mask: [batch, tokens], zero where a token is padding; no text is all padding.
        pooling: which of the three.

    Returns:
        [batch, d].

    """
    if pooling is Pooling.MEAN:
        return mean_of_tokens(states, attention_mask)
    real = attention_mask.bool()
    if pooling is Pooling.FIRST:
        place = real.int().argmax(dim=1)
    else:
        place = real.shape[1] - 1 - real.flip(1).int().argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), place]


def sentence_pooling(model: PreTrainedModel) -> Pooling:
    """Return how a model pools the vector that stands for a text, which its head for classification reads.

    The mean where the model's configuration says so; else the last token of a causal model, whose first knows nothing
    of the others, and the first token of an encoder. The same where the head, as that for spans, reads every token.
    """
    config = model.config.get_text_config()
    if getattr(config, "classifier_pooling", None) in ("mean", "late"):
        return Pooling.MEAN
    if getattr(config, "summary_type", None) == "last" or _is_causal(model):
        return Pooling.LAST
    return Pooling.FIRST


def _is_causal(model: PreTrainedModel) -> bool:
    """Whether a first token stays as it is when the second changes; there is no one setting that tells."""
    one, other = [token for token in range(3) if token != model.config.get_text_config().pad_token_id][:2]
    ids = torch.tensor([[one, one], [one, other]], device=model.device)
    with looking_at(model):
        states = hidden_states_of(model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True))
    first = states[-1][:, 0]
    return torch.allclose(first[0], first[1])
