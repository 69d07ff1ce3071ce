"""When a run is saved, and what is saved beside what the Trainer itself saves."""

import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from workers.finetune.folder import RunFolder
from workers.finetune.penalties import Penalties
from workers.finetune.progress import Progress
from workers.finetune.selection import SelectionCallback
from workers.finetune.tally import Tally

TALLY_FILE = "tally.safetensors"
PENALTIES_FILE = "penalties.safetensors"
# On a slow disk no more than a tenth of the time goes into saving, whatever the setting says.
SAVINGS_APART = 9


class CheckpointCallback(TrainerCallback):
    """Saves a run every few seconds of wall time, at the end of a step; later where saving itself takes long.

    The Trainer saves model, optimizer, schedule and random state. Added are the penalties with the shrinkage
    covariance, which belongs to weights of earlier steps and cannot be had again, the tally, and what the evaluations
    of the run came to so far. After a pass for the covariance that took longer than ``seconds`` the step that it came
    before is saved.
    """

    def __init__(
        self,
        folder: RunFolder,
        seconds: float,
        tally: Tally,
        penalties: Penalties | None,
        selection: SelectionCallback | None,
        progress: Progress,
    ) -> None:
        self.folder = folder
        self.seconds = seconds
        self.tally = tally
        self.penalties = penalties
        self.selection = selection
        self.progress = progress
        self._saved_at = time.monotonic()
        self._asked_at = self._saved_at
        self._wait = seconds

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask for a checkpoint if it is time; not after the last step, from which the Trainer cannot go on.

        Nor after one that is the last because the run is stopped early: resumed from there, it would go on.
        """
        now = time.monotonic()
        last = control.should_training_stop or state.global_step == state.max_steps
        if not last and now - self._saved_at >= self._wait:
            self._asked_at = now
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Complete the Trainer's checkpoint. The run got somewhere, so its attempts are counted anew."""
        checkpoint = self.folder.checkpoint(state.global_step)
        save_file(self.tally.state(), checkpoint / TALLY_FILE)
        if self.penalties is not None:
            save_file(self.penalties.state_dict(), checkpoint / PENALTIES_FILE)
        best = None
        if self.selection is not None:
            self.selection.save(checkpoint)
            best = self.selection.kept
        self.folder.complete(checkpoint, best)
        if self.selection is not None:
            self.selection.forget_others()
        with self.progress.sessions.begin() as session:
            self.progress.write(session, attempts=0)
        self._saved_at = time.monotonic()
        self._wait = max(self.seconds, SAVINGS_APART * (self._saved_at - self._asked_at))


def restore(checkpoint: Path, tally: Tally, penalties: Penalties | None) -> None:
    """Take back from a checkpoint what a ``CheckpointCallback`` put into it of the training itself."""
    tally.restore(load_file(checkpoint / TALLY_FILE))
    if penalties is not None:
        penalties.load_state_dict(load_file(checkpoint / PENALTIES_FILE))
