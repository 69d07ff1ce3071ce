"""The model that texts go through: without a head, in full precision, only looked at."""

import torch
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from isoscope.core.errors import InvalidError
from isoscope.hidden_states import NOT_ONE_SEQUENCE
from workers.models import Source, fit_together, load_tokenizer, load_weights, require_weights

# On top of the last layer, whose states do not depend on it; many checkpoints lack it.
UNSEEN = "pooler."


def load_model(source: Source, name: str, device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model on ``device`` and its tokenizer.

    Raises:
        InvalidError: it cannot be loaded, has an encoder and a decoder, or its files lack some of its weights.

    """
    tokenizer = load_tokenizer(source, name)
    # A model without positions of its own for each row counts from the left: padding there would shift the text.
    tokenizer.padding_side = "right"
    lacking: list[str] = []

    def load() -> PreTrainedModel:
        model: PreTrainedModel
        model, report = AutoModel.from_pretrained(
            source.folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
        lacking.extend(sorted(key for key in report["missing_keys"] if not key.startswith(UNSEEN)))
        return model

    model = load_weights(load, name, "to encode texts")
    if model.config.is_encoder_decoder:
        raise InvalidError(NOT_ONE_SEQUENCE, "model")
    require_weights(lacking, name)
    fit_together(model, tokenizer)
    return model.to(device), tokenizer  # type: ignore[arg-type]
