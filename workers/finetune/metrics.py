"""What is logged while a run trains: losses every few steps, IsoScore by layer every few more."""

import math
from typing import Any

from sqlalchemy import delete
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.db.config import RunConfig
from app.db.models import Phase, Step
from app.errors import InvalidError
from isotropy.isoscore import isoscore_from_covariance
from workers.finetune.layers import LayerMoments, rows_at_once
from workers.finetune.progress import Progress
from workers.finetune.rows import Rows
from workers.finetune.tally import Tally
from workers.hidden_states import hidden_states_of, looking_at, width

ROWS_PER_RUN = 100
PROBES_PER_RUN = 12
PROBE_ROWS = 256
PROBE_SEED = 0
# With fewer tokens the plain IsoScore is biased far down.
PROBE_TOKENS_PER_DIMENSION = 4


def rows_apart(max_steps: int) -> int:
    """Return after how many steps a run of ``max_steps`` writes its next row."""
    return max(1, max_steps // ROWS_PER_RUN)


class Probe:
    """A few validation rows, the same in all runs, on which isotropy is watched while a model trains."""

    def __init__(self, model: PreTrainedModel, rows: Rows, config: RunConfig) -> None:
        self.model = model
        self.rows = rows
        self.size = rows_at_once(config)
        enough = PROBE_TOKENS_PER_DIMENSION * width(model) + int(rows.tokens.max())
        self.indices = rows.longest_first(rows.draw(enough, (PROBE_SEED,), most=PROBE_ROWS))
        self.tokens = int(rows.tokens[self.indices].sum())

    def measures(self) -> dict[str, list[float | None]]:
        """Return measures of the tokens of each layer, None where one is undefined."""
        moments = LayerMoments(self.model)
        with looking_at(self.model):
            for batch in self.rows.batches(self.indices, self.size, self.model.device):
                outputs = self.model(**batch, output_hidden_states=True)
                moments.update(hidden_states_of(outputs), batch["attention_mask"])
        return {"isoscore_star": [isoscore_from_covariance(layer.covariance()).value for layer in moments.layers]}


class MetricsCallback(TrainerCallback):
    """Writes the rows of a run's curves, one a step, so that a step trained again is the same row again."""

    def __init__(self, tally: Tally, probe: Probe, tokens_per_step: float, progress: Progress) -> None:
        self.tally = tally
        self.probe = probe
        self.tokens_per_step = tokens_per_step
        self.progress = progress
        self.row_every = self.probe_every = 1

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Take back what was logged after the checkpoint, and look at the model before its first step."""
        self.row_every = rows_apart(state.max_steps)
        # A step costs its tokens three times, forward and backward, so a probe a sixth of the steps between two.
        steps = max(state.max_steps / PROBES_PER_RUN, 2 * self.probe.tokens / self.tokens_per_step)
        self.probe_every = self.row_every * max(1, round(steps / self.row_every))
        with self.progress.sessions.begin() as session:
            self.progress.write(session, phase_done=state.global_step)
            session.execute(delete(Step).where(Step.run_id == self.progress.run_id, Step.step > state.global_step))
        if state.global_step == 0:
            self._write(Step(run_id=self.progress.run_id, step=0, layers=self.probe.measures()))

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Say that training goes on, after a pass for the shrinkage covariance or not."""
        self.progress.enter(Phase.TRAINING, total=state.max_steps, done=state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write a row if one is due, the last step's in any case."""
        step = state.global_step
        last = control.should_training_stop or step == state.max_steps
        if step % self.row_every and not last:
            self.progress.advance(step)
            return
        task_loss, penalty = self.tally.means()
        if not math.isfinite(task_loss + penalty):
            raise InvalidError(
                f"The loss is not a number any more at step {step}. Lower the learning rate, or the size of lambda."
            )
        self.tally.clear()
        layers = self.probe.measures() if last or step % self.probe_every == 0 else None
        self._write(Step(run_id=self.progress.run_id, step=step, task_loss=task_loss, penalty=penalty, layers=layers))

    def _write(self, row: Step) -> None:
        with self.progress.sessions.begin() as session:
            self.progress.write(session, phase_done=row.step)
            session.merge(row)
