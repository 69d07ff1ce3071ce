"""Save checkpoints, keep the best weights, and stop a run early."""

import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file
from safetensors.torch import load_model as load_weights
from safetensors.torch import save_model as save_weights
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.db.config import RunConfig
from app.db.models import Phase
from app.db.options.measuring import HELD_OUT_PART, Checkpoint, SelectionRows
from app.db.run_results import WeightSelection
from isoscope.core.errors import InvalidError
from isoscope.hidden_states import evaluation_mode
from workers.training.data import Columns, n_rows, take_rows
from workers.training.folder import DamagedError, RunFolder
from workers.training.inference import TokenizedRows, forward
from workers.training.metrics import Tally
from workers.training.penalties import Penalties
from workers.training.progress import Progress
from workers.training.search import prune_if_below_median
from workers.training.tasks import Task

HISTORY_FILE = "selection.json"
TALLY_FILE = "tally.safetensors"
PENALTIES_FILE = "penalties.safetensors"
# Minimum seconds of training for each second of saving, so that a slow disk takes at most a twentieth of the time.
MIN_TRAINING_PER_SAVING = 19
HELD_OUT_SEED = 0
"""Draws the held-out rows. It never changes, so all runs on the same training rows hold out the same ones."""


def is_evaluation_due(config: RunConfig, state: TrainerState) -> bool:
    """Return whether this step ends an interval between evaluations on the selection rows, or the training."""
    if not config.selects_during_training:
        return False
    interval = config.evaluate_every  # None for one epoch
    ends_interval = float(state.epoch).is_integer() if interval is None else state.global_step % interval == 0
    return ends_interval or state.global_step == state.max_steps


def split_selection_rows(train: Columns, validation: Columns, config: RunConfig) -> tuple[Columns, Columns]:
    """Return the rows to train on and the selection rows: ``validation``, or a tenth held out of ``train``."""
    if config.selection is SelectionRows.VALIDATION:
        return train, validation
    n = n_rows(train)
    if n < 2:
        raise InvalidError(
            f"Holding out a tenth of the training rows needs at least 2 rows, got {n}. Train on more rows, or choose "
            "the checkpoint on the validation rows.",
            "selection",
        )
    n_held_out = math.ceil(n / HELD_OUT_PART)
    held_out, remaining = np.split(np.random.default_rng(HELD_OUT_SEED).permutation(n), [n_held_out])
    return take_rows(train, np.sort(remaining).tolist()), take_rows(train, np.sort(held_out).tolist())


@dataclass
class History:
    """The evaluations of a run on its selection rows."""

    evaluations: list[tuple[int, float | None]] = field(default_factory=list)
    """Step and metric of each; None if the metric is undefined or the model has diverged."""
    stopped_early: bool = False

    def best(self) -> tuple[int, float] | None:
        """Return step and metric of the best evaluation, the first of equal ones; None if no metric is defined."""
        defined = [(step, value) for step, value in self.evaluations if value is not None and math.isfinite(value)]
        return max(defined, key=lambda evaluation: (evaluation[1], -evaluation[0]), default=None)

    def evaluations_since_best(self) -> int:
        """Return the number of evaluations after the best one; of all if there is no best one."""
        best = self.best()
        return len([step for step, _ in self.evaluations if best is None or step > best[0]])


@dataclass(eq=False)
class SelectionCallback(TrainerCallback):
    """Evaluate on the selection rows, keep the best weights and stop early. Checkpoints include the history."""

    folder: RunFolder
    model: PreTrainedModel
    rows: TokenizedRows
    task: Task
    progress: Progress
    history: History = field(default_factory=History, init=False)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        config, step = self.task.config, state.global_step
        if not is_evaluation_due(config, state):
            return
        self.history.evaluations.append((step, self._evaluate()))
        if self.best_weights_step == step:
            self.folder.save_best_weights(step, lambda path: save_weights(self.model, str(path)))
        if step < state.max_steps:
            if config.patience is not None and self.history.evaluations_since_best() >= config.patience:
                self.history.stopped_early = control.should_training_stop = True
            prune_if_below_median(self.progress, self.history.evaluations, self.describe_selection())
        self.progress.enter(Phase.TRAINING, total=state.max_steps, done=step)

    def restore(self, checkpoint: Path | None) -> None:
        """Restore the history of ``checkpoint``, or start an empty one if it is None. Remove unneeded best weights."""
        saved_history = [] if checkpoint is None else json.loads((checkpoint / HISTORY_FILE).read_text())
        self.history = History([(step, value) for step, value in saved_history])
        self.folder.remove_other_best_weights(except_step=self.best_weights_step)

    @property
    def best_weights_step(self) -> int | None:
        """Return the step of the weights to keep; None if none is best yet, or the run selects the last weights."""
        best = self.history.best()
        return best[0] if best is not None and self.task.config.checkpoint is Checkpoint.BEST else None

    def load_selected_weights(self) -> WeightSelection:
        """Load the best weights if the run keeps them, and return the selection. Raise DamagedError for a bad file."""
        if self.best_weights_step is not None:
            if not self.folder.are_best_weights_sound(self.best_weights_step):
                raise DamagedError(f"The best weights, of step {self.best_weights_step}, were damaged on the disk.")
            load_weights(self.model, str(self.folder.best_weights_path(self.best_weights_step)))
        return self.describe_selection()

    def describe_selection(self) -> WeightSelection:
        config, best = self.task.config, self.history.best()
        return WeightSelection(
            split=config.selection.value,
            n=self.rows.n_examples,
            metric=config.metric,
            best_step=None if best is None else best[0],
            best=None if best is None else best[1],
            history=list(self.history.evaluations),
            stopped_early=self.history.stopped_early,
        )

    def _evaluate(self) -> float | None:
        """Return the metric on the selection rows; None if it is undefined or the model has diverged."""
        config = self.task.config
        order = self.rows.longest_first(np.arange(len(self.rows)))
        collector = self.task.make_collector(self.rows, order)
        loss = 0.0
        with evaluation_mode(self.model):
            for batch_outputs in forward(self.model, self.rows, order, config, self.progress, hidden_states=False):
                collector.add(batch_outputs.outputs, batch_outputs.batch)
                loss += batch_outputs.loss_sum
        # With NaN logits the argmax is the first class, which may happen to be right, so check the loss.
        return collector.metrics()[config.metric].value if math.isfinite(loss) else None


@dataclass(eq=False)
class CheckpointCallback(TrainerCallback):
    """Save a checkpoint every ``interval_seconds``, less often if saving is slow. Add tally, penalties and history."""

    folder: RunFolder
    interval_seconds: float
    tally: Tally
    penalties: Penalties | None
    selection_callback: SelectionCallback | None
    progress: Progress

    def __post_init__(self) -> None:
        self._saved_at = self._requested_at = time.monotonic()
        self._wait_seconds = self.interval_seconds

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Request a checkpoint if one is due, but not at the last step, planned or early: no run can resume there."""
        now = time.monotonic()
        is_last = control.should_training_stop or state.global_step == state.max_steps
        if not is_last and now - self._saved_at >= self._wait_seconds:
            self._requested_at = now
            self.progress.write_and_commit()  # a run resumes only where all steps before are logged
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Complete the Trainer's checkpoint. The run made progress, so set its count of attempts to 0."""
        checkpoint = self.folder.checkpoint(state.global_step)
        save_file(self.tally.state(), checkpoint / TALLY_FILE)
        if self.penalties is not None:
            save_file(self.penalties.state_dict(), checkpoint / PENALTIES_FILE)
        best_step = None
        if self.selection_callback is not None:
            (checkpoint / HISTORY_FILE).write_text(json.dumps(self.selection_callback.history.evaluations))
            best_step = self.selection_callback.best_weights_step
        self.folder.complete_checkpoint(checkpoint, best_step)
        if self.selection_callback is not None:
            self.folder.remove_other_best_weights(except_step=best_step)
        self.progress.write_and_commit(attempts=0)
        self._saved_at = time.monotonic()
        saving_seconds = self._saved_at - self._requested_at
        self._wait_seconds = max(self.interval_seconds, MIN_TRAINING_PER_SAVING * saving_seconds)


def restore_loss_state(checkpoint: Path, tally: Tally, penalties: Penalties | None) -> None:
    """Restore the tally and the state of the penalties that a checkpoint has."""
    tally.restore(load_file(checkpoint / TALLY_FILE))
    if penalties is not None:
        penalties.load_state_dict(load_file(checkpoint / PENALTIES_FILE))
