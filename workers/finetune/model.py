"""The model that a run trains: pretrained, with a new head for its task."""

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from app.db.config import RunConfig
from app.errors import InvalidError
from workers.finetune.tasks import Task
from workers.hidden_states import depth
from workers.models import Source, fit_together, load_tokenizer, load_weights


def load_model(source: Source, task: Task) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model with a new head for the task, drawn by the run's seed, and its tokenizer."""
    config = task.config
    tokenizer = load_tokenizer(source, config.model)
    set_seed(config.seed)

    def load() -> PreTrainedModel:
        # Trained in full precision, whatever the weights were saved in.
        return task.load(source.folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False)

    model = load_weights(load, config.model, task.purpose)
    fit_together(model, tokenizer)
    _require_layers(model, config)
    return model, tokenizer


def _require_layers(model: PreTrainedModel, config: RunConfig) -> None:
    last = depth(model)
    if isinstance(config.layers, list) and config.layers[-1] > last:
        raise InvalidError(
            f"Expected layers from 1 to {last}, which {config.model!r} has, got {config.layers}.", "layers"
        )
