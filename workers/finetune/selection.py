"""Which weights of a run are kept, and when it is stopped early: both by its metric on rows set apart for that."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_model as load_weights
from safetensors.torch import save_model as save_weights
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.db.config import RunConfig
from app.db.models import Phase
from app.db.options.measuring import HELD_OUT_PART, Checkpoint, Selection
from app.db.run_results import Selected
from isoscope.core.errors import InvalidError
from isoscope.hidden_states import looking_at
from workers.finetune.columns import Columns, n_rows, rows_of
from workers.finetune.folder import DamagedError, RunFolder
from workers.finetune.looking import forward
from workers.finetune.progress import Progress
from workers.finetune.pruning import prune
from workers.finetune.rows import Rows
from workers.finetune.tasks import Task

HISTORY_FILE = "selection.json"
HELD_OUT_SEED = 0
"""Of the rows held out: the same in every run of every experiment."""


def is_due(config: RunConfig, state: TrainerState) -> bool:
    """Whether a run is evaluated at the step that it has just made: the last, and each of a number or of an epoch."""
    if not config.selects:
        return False
    every = config.evaluate_every
    due = float(state.epoch).is_integer() if every is None else state.global_step % every == 0
    return due or state.global_step == state.max_steps


def divide(train: Columns, validation: Columns, config: RunConfig) -> tuple[Columns, Columns]:
    """Return the rows to train on and those to choose by: the validation rows, or a tenth of the training rows.

    Rows are divided, not what a tokenizer makes of them: windows of one text would be on both sides.
    """
    if config.selection is Selection.VALIDATION:
        return train, validation
    n = n_rows(train)
    if n < 2:
        raise InvalidError(
            f"Expected two training rows or more, to hold a tenth of them out, got {n}. Train on more rows, or choose "
            "the checkpoint on the validation rows.",
            "selection",
        )
    order = np.random.default_rng(HELD_OUT_SEED).permutation(n)
    held_out, rest = np.split(order, [math.ceil(n / HELD_OUT_PART)])
    return rows_of(train, np.sort(rest).tolist()), rows_of(train, np.sort(held_out).tolist())


@dataclass
class History:
    """The metric at each evaluation, null where it is undefined or the model has diverged."""

    values: list[tuple[int, float | None]] = field(default_factory=list)
    stopped_early: bool = False

    def best(self) -> tuple[int, float] | None:
        """Return the first step that nothing exceeds, and its value; None before there is any."""
        defined = [(step, value) for step, value in self.values if value is not None and math.isfinite(value)]
        return max(defined, key=lambda one: (one[1], -one[0]), default=None)

    def since_best(self) -> int:
        """Return the number of evaluations after the best one."""
        best = self.best()
        return len([step for step, _ in self.values if best is None or step > best[0]])


class SelectionCallback(TrainerCallback):
    """Evaluates the model on the selection rows, keeps its best weights and stops the run when they get no better.

    Its history goes into every checkpoint (``save``); the weights that a checkpoint's history calls the best stay in
    the run's folder as long as it is the last one. So a run that is killed at any moment chooses as if it had not been.
    The training's random state is not touched.
    """

    def __init__(self, folder: RunFolder, model: PreTrainedModel, rows: Rows, task: Task, progress: Progress) -> None:
        self.folder = folder
        self.model = model
        self.rows = rows
        self.task = task
        self.progress = progress
        self.history = History()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Evaluate if it is time; at the end of an epoch too, because a checkpoint saved there must know of it."""
        config, step = self.task.config, state.global_step
        if not is_due(config, state):
            return
        self.history.values.append((step, self._metric()))
        if self.kept == step:
            self.folder.keep_best(step, lambda path: save_weights(self.model, str(path)))
        if config.patience is not None and self.history.since_best() >= config.patience and step < state.max_steps:
            self.history.stopped_early = control.should_training_stop = True
        if step < state.max_steps:
            prune(self.progress, self.history.values, self.told())
        self.progress.enter(Phase.TRAINING, total=state.max_steps, done=step)

    def save(self, checkpoint: Path) -> None:
        """Add the history to a checkpoint."""
        (checkpoint / HISTORY_FILE).write_text(json.dumps(self.history.values))

    def restore(self, checkpoint: Path | None) -> None:
        """Go on from the history of a checkpoint, or begin one; what came after it is forgotten."""
        told = [] if checkpoint is None else json.loads((checkpoint / HISTORY_FILE).read_text())
        self.history = History([(step, value) for step, value in told])
        self.forget_others()

    @property
    def kept(self) -> int | None:
        """The step whose weights are kept as the best, where they are to be and there is one."""
        best = self.history.best()
        return best[0] if best is not None and self.task.config.checkpoint is Checkpoint.BEST else None

    def forget_others(self) -> None:
        """Let go of all weights but the best, and but those that an earlier checkpoint needs."""
        self.folder.forget_best(but=self.kept)

    def choose(self) -> Selected:
        """Give the model its chosen weights, and return what has to be known of the choice for a run's results."""
        if self.kept is not None:
            if not self.folder.best_is_sound(self.kept):
                raise DamagedError(f"The weights of step {self.kept}, the best ones, were damaged on the disk.")
            load_weights(self.model, str(self.folder.best(self.kept)))
        return self.told()

    def told(self) -> Selected:
        """Return what has to be known of the evaluations so far."""
        config, best = self.task.config, self.history.best()
        return Selected(
            split=config.selection.value,
            n=self.rows.examples,
            metric=config.metric,
            best_step=None if best is None else best[0],
            best=None if best is None else best[1],
            history=list(self.history.values),
            stopped_early=self.history.stopped_early,
        )

    def _metric(self) -> float | None:
        order = self.rows.longest_first(np.arange(len(self.rows)))
        predictions, loss, config = self.task.predictions(self.rows, order), 0.0, self.task.config
        with looking_at(self.model):
            for looked in forward(self.model, self.rows, order, config, self.progress, hidden_states=False):
                predictions.add(looked.outputs, looked.batch)
                loss += looked.loss
        # Of logits that are not numbers the first class is the greatest, and may well be the right one.
        return predictions.metrics()[config.metric].value if math.isfinite(loss) else None
