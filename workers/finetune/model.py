"""The model that a run trains: pretrained, with a head for its task."""

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from app.db.config import RunConfig
from isoscope.core.errors import InvalidError
from isoscope.hidden_states import depth
from workers.finetune.tasks import Task
from workers.models import Source, fit_together, load_tokenizer, load_weights, require_weights

# Of the body by its name, of the head by what it does; checkpoints of models without a head lack it.
POOLER = ".pooler."


def load_model(source: Source, task: Task) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model with a head for the task, and its tokenizer.

    The head is drawn by the run's seed, unless the model's files have one of its very names and shapes.
    """
    config = task.config
    tokenizer = load_tokenizer(source, config.model)
    set_seed(config.seed)
    lacking: list[str] = []

    def load() -> PreTrainedModel:
        model: PreTrainedModel
        model, report = task.auto_class.from_pretrained(
            source.folder,
            **task.head(),
            # Trained in full precision, whatever the weights were saved in.
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            # A model that was tuned for another task has a head of another shape.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
        drawn = report["missing_keys"] | {key for key, *_ in report["mismatched_keys"]}
        body = f"{model.base_model_prefix}."
        lacking.extend(sorted(key for key in drawn if key.startswith(body) and POOLER not in key))
        return model

    model = load_weights(load, config.model, task.purpose)
    require_weights(lacking, config.model)
    fit_together(model, tokenizer)
    _require_layers(model, config)
    _require_checkpointing(model, config)
    return model, tokenizer


def _require_layers(model: PreTrainedModel, config: RunConfig) -> None:
    last = depth(model)
    if isinstance(config.layers, list) and config.layers[-1] > last:
        raise InvalidError(
            f"Expected layers from 1 to {last}, which {config.model!r} has, got {config.layers}.", "layers"
        )


def _require_checkpointing(model: PreTrainedModel, config: RunConfig) -> None:
    if config.gradient_checkpointing and not model.supports_gradient_checkpointing:
        raise InvalidError(
            f"Expected no gradient checkpointing, which {config.model!r} cannot do as transformers has it; got it. "
            "Leave it out, or choose another model.",
            "gradient_checkpointing",
        )
