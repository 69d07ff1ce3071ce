"""The model that a run trains: pretrained, with a new head for its labels."""

import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase, set_seed

from app.db.config import RunConfig
from app.errors import InvalidError
from workers.hidden_states import depth
from workers.models import Source, fit_together, load_tokenizer, load_weights


def load_model(source: Source, config: RunConfig) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model with a new classification head, drawn by the run's seed, and its tokenizer."""
    tokenizer = load_tokenizer(source, config.model)
    set_seed(config.seed)

    def load() -> PreTrainedModel:
        model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(
            source.folder,
            num_labels=len(config.label_names),
            id2label=dict(enumerate(config.label_names)),
            label2id={name: number for number, name in enumerate(config.label_names)},
            # Never guessed from the labels: int8 ones would make it a multi-label task.
            problem_type="single_label_classification",
            # Trained in full precision, whatever the weights were saved in.
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
        )
        return model

    model = load_weights(load, config.model, "for classification")
    fit_together(model, tokenizer)
    _require_layers(model, config)
    return model, tokenizer


def _require_layers(model: PreTrainedModel, config: RunConfig) -> None:
    last = depth(model)
    if config.layers is not None and max(config.layers, default=0) > last:
        raise InvalidError(
            f"Expected layers from 1 to {last}, which {config.model!r} has, got {config.layers}.", "layers"
        )
