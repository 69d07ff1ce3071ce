"""The Trainer with penalties on its loss, and the model with a head that it trains."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Trainer, TrainingArguments, set_seed

from app.db.config import RunConfig
from app.db.options.training import Optimizer, Precision, Schedule
from isoscope.core.errors import InvalidError
from isoscope.hidden_states import depth
from workers.failure import DeviceLostError, NotFiniteError
from workers.models import ModelSource, load_pretrained, load_tokenizer, match_tokenizer_to_model, require_weights
from workers.training.metrics import Tally
from workers.training.penalties import Penalties
from workers.training.tasks import Task

# Part of the keys of pooler weights. Files may lack them: only the head uses them, despite their names.
POOLER = ".pooler."


def load_model(source: ModelSource, task: Task) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model and tokenizer. If the model's files lack a fitting head, the seed draws a new one."""
    config = task.config
    tokenizer = load_tokenizer(source, config.model)
    set_seed(config.seed)
    # A model that was tuned for another task has a head of another shape.
    options = {**task.head_options(), "ignore_mismatched_sizes": True}
    model, report = load_pretrained(task.auto_class, source, config.model, task.purpose, **options)
    new_weights = report["missing_keys"] | {key for key, *_ in report["mismatched_keys"]}
    body_prefix = f"{model.base_model_prefix}."
    missing_weights = sorted(key for key in new_weights if key.startswith(body_prefix) and POOLER not in key)
    require_weights(missing_weights, config.model)
    match_tokenizer_to_model(model, tokenizer)
    last_layer = depth(model)
    if isinstance(config.layers, list) and config.layers[-1] > last_layer:
        raise InvalidError(f"{config.model!r} has layers 1 to {last_layer}, got {config.layers}.", "layers")
    if config.gradient_checkpointing and not model.supports_gradient_checkpointing:
        raise InvalidError(
            f"transformers does not support gradient checkpointing for {config.model!r}. Leave it out, or choose "
            "another model.",
            "gradient_checkpointing",
        )
    return model, tokenizer


SCHEDULES = {
    # Constant from the first step if the configuration has no warm-up.
    Schedule.CONSTANT: "constant_with_warmup",
    Schedule.LINEAR: "linear",
    Schedule.COSINE: "cosine",
}


class IsotropyTrainer(Trainer):
    """A Trainer whose loss is the task's plus the penalties of a run.

    Both are means over a batch, which the Trainer averages over accumulated batches. Accumulating equal batches gives
    the task's gradient of one large batch, but another penalty, because each batch's cloud has fewer points.
    Without penalties it is a plain Trainer that keeps a tally.
    """

    def __init__(self, *args: Any, tally: Tally, penalties: Penalties | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # From the signature of `forward`, the Trainer would infer that the loss is already averaged over all
        # accumulated batches. The penalty is not, and neither is BERT's loss, despite its signature.
        self.model_accepts_loss_kwargs = False
        self.tally = tally
        self.penalties = None if penalties is None else penalties.to(self.args.device)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Return the task's loss plus the penalties, with the outputs if requested."""
        if self.penalties is not None and self.penalties.selectors:
            inputs = {**inputs, "output_hidden_states": True}
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        penalty = None
        if self.penalties is not None:
            step = self.state.global_step
            try:
                penalty = self.penalties(outputs, inputs, step)
            except ValueError as error:
                raise NotFiniteError(f"The penalty has no value at step {step + 1}. {error}", "lambdas") from error
        self.tally.add(loss, penalty)
        if penalty is not None:
            loss = loss + penalty
        return (loss, outputs) if return_outputs else loss

    def _get_grad_norm(self, *_: Any, **__: Any) -> None:
        """Leave out the norm of all gradients: the Trainer computes it in each step, and nothing here reads it."""


def make_training_arguments(config: RunConfig, folder: Path, device: str) -> TrainingArguments:
    """Return the arguments of a Trainer that logs nothing and saves only on request.

    Raises InvalidError for fp16 on a CPU, and DeviceLostError instead of falling back to the CPU.
    """
    if config.precision is Precision.FP16 and device == "cpu":
        raise InvalidError("fp16 needs a GPU, and this worker trains on the CPU. Choose bf16 or fp32.", "precision")
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=config.epochs or 1,
        max_steps=config.max_steps or -1,  # -1 trains for all epochs
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.accumulation,
        learning_rate=config.learning_rate,
        lr_scheduler_type=SCHEDULES[config.schedule],
        # Below 1 it is a fraction of all steps.
        warmup_steps=config.warmup,
        weight_decay=config.weight_decay,
        # No clipping, as in the reference code: with it, a large lambda would slow the task's learning down.
        max_grad_norm=0.0,
        fp16=config.precision is Precision.FP16,
        bf16=config.precision is Precision.BF16,
        activation_checkpointing=config.gradient_checkpointing,
        seed=config.seed,
        data_seed=config.seed,
        use_cpu=device == "cpu",
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=False,
        # In all tested architectures each weight gets a gradient, so no search for unused ones is needed.
        ddp_find_unused_parameters=False,
    )
    if arguments.device.type != device.partition(":")[0]:
        raise DeviceLostError
    return arguments


def choose_optimizer(
    config: RunConfig, arguments: TrainingArguments
) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
    """Return the optimizer's class and keywords; Adam adds weight decay to the gradient, AdamW to the weights."""
    optimizer_class, keywords = Trainer.get_optimizer_cls_and_kwargs(arguments)
    return (torch.optim.Adam if config.optimizer is Optimizer.ADAM else optimizer_class), keywords
