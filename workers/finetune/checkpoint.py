"""When a run is saved, and what is saved beside what the Trainer itself saves."""

import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from workers.finetune.folder import RunFolder
from workers.finetune.penalties import Penalties
from workers.finetune.progress import Progress
from workers.finetune.tally import Tally

TALLY_FILE = "tally.safetensors"
PENALTIES_FILE = "penalties.safetensors"
# On a slow disk no more than a tenth of the time goes into saving, whatever the setting says.
SAVINGS_APART = 9


class CheckpointCallback(TrainerCallback):
    """Saves a run every few seconds of wall time, at the end of a step; later where saving itself takes long.

    The Trainer saves model, optimizer, schedule and random state. Added are the penalties with the shrinkage
    covariance, which belongs to weights of earlier steps and cannot be had again, and the tally. After a pass
    for the covariance that took longer than ``seconds`` the step that it came before is saved.
    """

    def __init__(
        self, folder: RunFolder, seconds: float, tally: Tally, penalties: Penalties | None, progress: Progress
    ) -> None:
        self.folder = folder
        self.seconds = seconds
        self.tally = tally
        self.penalties = penalties
        self.progress = progress
        self._saved_at = time.monotonic()
        self._asked_at = self._saved_at
        self._wait = seconds

    def restore(self, checkpoint: Path) -> None:
        """Take back from a checkpoint what ``on_save`` put into it."""
        self.tally.restore(load_file(checkpoint / TALLY_FILE))
        if self.penalties is not None:
            self.penalties.load_state_dict(load_file(checkpoint / PENALTIES_FILE))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask for a checkpoint if it is time; not after the last step, from which the Trainer cannot go on."""
        now = time.monotonic()
        if state.global_step < state.max_steps and now - self._saved_at >= self._wait:
            self._asked_at = now
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Complete the Trainer's checkpoint. The run got somewhere, so its attempts are counted anew."""
        checkpoint = self.folder.path / f"checkpoint-{state.global_step}"
        save_file(self.tally.state(), checkpoint / TALLY_FILE)
        if self.penalties is not None:
            save_file(self.penalties.state_dict(), checkpoint / PENALTIES_FILE)
        self.folder.complete(checkpoint)
        with self.progress.sessions.begin() as session:
            self.progress.write(session, attempts=0)
        self._saved_at = time.monotonic()
        self._wait = max(self.seconds, SAVINGS_APART * (self._saved_at - self._asked_at))
