"""The Trainer with an isotropy penalty on its loss, and what it is configured with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.errors import InvalidError
from isotropy.points import draw_tokens, union_of_layers
from isotropy.regularizers.istar import IStar
from workers.finetune.tally import Tally
from workers.hidden_states import hidden_states_of


class IsotropyTrainer(Trainer):
    """A Trainer whose loss is the task's plus a penalty on the tokens of the chosen layers.

    Both are means over a batch, and the Trainer averages them over accumulated batches: the penalty's cloud is that of
    one batch, however many are accumulated, or of a random part of its tokens. Without a regularizer it is a plain
    Trainer that keeps a tally.
    """

    def __init__(
        self,
        *args: Any,
        tally: Tally,
        regularizer: IStar | None = None,
        layers: Sequence[int] | None = None,
        token_fraction: float = 1.0,
        include_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        # The Trainer infers from the signature of `forward` that a loss comes divided by the rows of all accumulated
        # batches, and leaves it as it is. The penalty does not; nor does, for all its signature says, BERT's loss.
        self.model_accepts_loss_kwargs = False
        self.tally = tally
        self.regularizer = None if regularizer is None else regularizer.to(self.args.device)
        self.layers = layers
        self.token_fraction = token_fraction
        self.include_padding = include_padding

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Return the task's loss plus the penalty, a scalar, and the model's outputs if they are asked for."""
        if self.regularizer is not None:
            inputs = {**inputs, "output_hidden_states": True}
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        penalty = None
        if self.regularizer is not None:
            penalty = self._penalty(self.regularizer, outputs, inputs["attention_mask"])
        self.tally.add(loss, penalty)
        if penalty is not None:
            loss = loss + penalty
        return (loss, outputs) if return_outputs else loss

    def _penalty(self, regularizer: IStar, outputs: ModelOutput, attention_mask: Tensor) -> Tensor:
        mask = torch.ones_like(attention_mask) if self.include_padding else attention_mask
        # By seed and step, apart from the training's random state: a run that is resumed draws what it would have.
        # The generator keeps 32 bits of a seed, which are mixed of both.
        mixed = np.random.SeedSequence((self.args.seed, self.state.global_step)).generate_state(1)
        draw = torch.Generator().manual_seed(int(mixed[0]))
        mask = draw_tokens(mask, self.token_fraction, draw)
        points = union_of_layers(hidden_states_of(outputs), mask, self.layers)
        try:
            penalty: Tensor = regularizer(points)
        except ValueError as error:
            step = self.state.global_step + 1
            raise InvalidError(f"The penalty has no value at step {step}. {error}") from error
        return penalty


def training_arguments(config: RunConfig, folder: Path, device: str) -> TrainingArguments:
    """Return the Trainer's settings: silent, and saving only when a callback says so."""
    return TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=config.epochs or 1,
        max_steps=config.max_steps or -1,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.accumulation,
        learning_rate=config.learning_rate,
        lr_scheduler_type=config.schedule.value,
        weight_decay=config.weight_decay,
        # The reference code clips nothing; clipped, a large lambda would slow the task's learning down.
        max_grad_norm=0.0,
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
    )
