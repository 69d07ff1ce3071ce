"""Log steps of a run while it trains: losses every few steps, measures of its layers less often."""

import logging
import math
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.core.training_cost import expected_longest
from app.db.config import RunConfig
from app.db.models import Phase, Run, Step
from app.db.options.measuring import MEASURING_TOKENS_PER_DIMENSION, PROBE_TOKENS_PER_DIMENSION, default_probe_every
from app.db.work import ran_beside_others
from isoscope.hidden_states import LayerMeasures, evaluation_mode, hidden_states_of, width
from workers.failure import NotFiniteError
from workers.training.inference import TokenizedRows, draw_row_indices, inference_batch_size
from workers.training.progress import Progress
from workers.training.run_spec import batch_plan

logger = logging.getLogger(__name__)

LOGGED_STEPS_PER_RUN = 100
MAX_PROBE_TEXTS = 256
PROBE_SEED = 0
# With fewer texts the bias-corrected IsoScore has wide errors.
MIN_PROBE_TEXTS = 64
MIN_TIMED_STEPS = 3
MAX_TIMED_STEPS = 1000


class Tally:
    """Sums of task losses and penalties since the last logged step, on the device.

    They are float64, so that logged means do not depend on how often the sums are averaged over processes.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.n_batches = 0
        self.task_loss = torch.zeros((), dtype=torch.float64)
        self.penalty = torch.zeros((), dtype=torch.float64)

    def add(self, task_loss: Tensor, penalty: Tensor | None) -> None:
        self.n_batches += 1
        self.task_loss = _accumulate(self.task_loss, task_loss)
        if penalty is not None:
            self.penalty = _accumulate(self.penalty, penalty)

    def means(self) -> tuple[float, float]:
        """Return the mean task loss and the mean penalty of a batch."""
        return float(self.task_loss) / self.n_batches, float(self.penalty) / self.n_batches

    def state(self) -> dict[str, Tensor]:
        return {"batches": torch.tensor(self.n_batches), "task_loss": self.task_loss, "penalty": self.penalty}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.n_batches = int(state["batches"])
        self.task_loss, self.penalty = state["task_loss"], state["penalty"]


def _accumulate(total: Tensor, added: Tensor) -> Tensor:
    # Apple's GPUs have no float64.
    dtype = torch.float32 if added.device.type == "mps" else torch.float64
    return total.to(added.device, dtype) + added.detach().to(dtype)


def logging_interval(max_steps: int) -> int:
    """Return the number of steps from one logged step to the next."""
    return max(1, max_steps // LOGGED_STEPS_PER_RUN)


class Probe:
    """Measures layers during training on a few validation rows, the same in all runs."""

    def __init__(self, model: PreTrainedModel, rows: TokenizedRows, config: RunConfig) -> None:
        self.model = model
        self.rows = rows
        self.batch_size = inference_batch_size(config)
        self.probe_every = config.probe_every
        max_tokens = PROBE_TOKENS_PER_DIMENSION * width(model) + int(rows.token_counts.max())
        indices = draw_row_indices(rows.token_counts, max_tokens, (PROBE_SEED,), MIN_PROBE_TEXTS, MAX_PROBE_TEXTS)
        self.indices = rows.longest_first(indices)
        self.point_counts = {"tokens": int(rows.token_counts[self.indices].sum()), "texts": len(self.indices)}
        """Number of points of a layer: texts for the bias-corrected IsoScore, tokens for the other measures."""
        self.cost = self.point_counts["tokens"] + MEASURING_TOKENS_PER_DIMENSION * width(model)
        """The cost of one measurement, in tokens of a forward pass."""

    def steps_between_probes(self, max_steps: int, tokens_per_step: float) -> int:
        """Return the configured interval between measurements; by default, a multiple of the logging interval."""
        if self.probe_every is not None:
            return self.probe_every
        probe_every = default_probe_every(max_steps, self.cost, tokens_per_step)
        log_every = logging_interval(max_steps)
        return log_every * max(1, round(probe_every / log_every))

    def measure(self) -> dict[str, list[float | None]]:
        """Return each measure of every layer, first layer first; None where it is undefined."""
        layers = LayerMeasures(self.model)
        with evaluation_mode(self.model):
            for batch in self.rows.batches(self.indices, self.batch_size, self.model.device):
                outputs = self.model(**batch, output_hidden_states=True)
                layers.update(hidden_states_of(outputs), batch["attention_mask"])
        return layers.values()


@dataclass(eq=False)
class StepClock(TrainerCallback):
    """Times steps, and writes the speed into the run's environment, from which times of later sweeps are estimated."""

    token_counts: NDArray[np.int64]
    """[n], number of tokens of each training row."""
    config: RunConfig
    environment: dict[str, Any]
    progress: Progress
    _step_seconds: list[float] = field(default_factory=list, init=False)
    _last_step_at: float | None = field(default=None, init=False)

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Forget when the last step ended, so that no step counts the time between epochs."""
        self._last_step_at = None

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Record the step time; measurements of layers in between are too rare to move the median."""
        now = time.perf_counter()
        if self._last_step_at is not None and len(self._step_seconds) < MAX_TIMED_STEPS:
            self._step_seconds.append(now - self._last_step_at)
        self._last_step_at = now

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the median step time, unless too few steps were timed or other runs slowed them down."""
        if len(self._step_seconds) >= MIN_TIMED_STEPS:
            padded_length = expected_longest(self.token_counts.tolist(), self.config.batch_size)
            speed = {
                "tokens_per_step": batch_plan(self.config)["rows_per_step"] * padded_length,
                "seconds_per_step": statistics.median(self._step_seconds),
            }
            with self.progress.sessions.begin() as session:
                if not ran_beside_others(session, session.get_one(Run, self.progress.run_id)):
                    self.progress.write(session, environment={**self.environment, "speed": speed})


@dataclass(eq=False)
class MetricsCallback(TrainerCallback):
    """Logs steps of a run. A step that is trained again, after a kill, replaces the step logged before."""

    tally: Tally
    probe: Probe
    tokens_per_step: float
    progress: Progress
    log_every: int = field(default=1, init=False)
    probe_every: int = field(default=1, init=False)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Remove steps logged after the checkpoint, and measure layers before the first step."""
        self.log_every = logging_interval(state.max_steps)
        self.probe_every = self.probe.steps_between_probes(state.max_steps, self.tokens_per_step)
        self.progress.begin_training(state.global_step)
        if state.global_step == 0:
            self.progress.log_step(Step(run_id=self.progress.run_id, step=0, layers=self.probe.measure()))

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.progress.enter(Phase.TRAINING, total=state.max_steps, done=state.global_step)

    def logs_at(self, step: int) -> bool:
        return step % self.log_every == 0 or step % self.probe_every == 0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Log the step if it is due, with measures of the layers if these are due; log the last step with both."""
        step = state.global_step
        is_last = control.should_training_stop or step == state.max_steps
        if not (is_last or self.logs_at(step)):
            self.progress.advance(step)
            return
        task_loss, penalty = self.tally.means()
        if not math.isfinite(penalty):  # checked only here, because reading it in each step would slow down a GPU
            raise NotFiniteError(
                f"The penalty has no value at step {step}. Lower the learning rate, or the size of lambda.", "lambdas"
            )
        if not math.isfinite(task_loss):
            raise NotFiniteError(
                f"The loss became NaN or infinite at step {step}. Lower the learning rate, or the size of lambda.",
                "learning_rate",
            )
        self.tally.clear()
        logger.info("step %s of %s: loss %.4g, penalty %.4g", step, state.max_steps, task_loss, penalty)
        layers = self.probe.measure() if is_last or step % self.probe_every == 0 else None
        logged_step = Step(run_id=self.progress.run_id, step=step, task_loss=task_loss, penalty=penalty, layers=layers)
        self.progress.log_step(logged_step)
