"""Write the progress of a run into its row, and stop the run once its row no longer assigns it to this worker."""

import logging
import resource
import sys
import time
from typing import Any

import torch
from sqlalchemy import delete, event, func, select, update
from sqlalchemy.orm import Session

from app.db.models import Attempt, AttemptOutcome, Phase, Run, RunStatus, Step
from app.db.session import Sessions
from app.db.work import end_attempts
from workers.job_rows import SECONDS_BETWEEN_WRITES

logger = logging.getLogger(__name__)

# GPU memory of a process that torch does not count, estimated.
GPU_CONTEXT_BYTES = 2**30


def read_peak_memory() -> int:
    """Return the most bytes of memory that this process has used at once: of its GPU, or of the machine without one."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return torch.cuda.max_memory_reserved() + GPU_CONTEXT_BYTES
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class RunStoppedError(Exception):
    """The run was cancelled, deleted, pruned or given to another worker while this one trained it."""


class Progress:
    """Writes the row of a run that the worker ``slot`` trains; raises RunStoppedError once it no longer does."""

    def __init__(self, sessions: Sessions, run_id: str, slot: str) -> None:
        self.sessions = sessions
        self.run_id = run_id
        self.slot = slot
        self._written_at = 0.0
        self._waiting_steps: list[Step] = []
        self._time_counted_until = time.monotonic()
        self._worked_seconds = 0.0
        self._update_attempt = update(Attempt).where(Attempt.run_id == run_id, Attempt.ended_at.is_(None))

    def begin_training(self, step: int) -> None:
        """Set the first step of the attempt, and remove steps that earlier attempts logged after it."""
        with self.sessions.begin() as session:
            self.write(session, phase_done=step)
            if step == 0:  # the work of earlier attempts is lost
                session.execute(update(Run).where(Run.id == self.run_id).values(worked_seconds=self._worked_seconds))
            session.execute(self._update_attempt.values(first_step=step))
            self._count_steps_up_to_checkpoint(session, step)
            session.execute(delete(Step).where(Step.run_id == self.run_id, Step.step > step))

    def _count_steps_up_to_checkpoint(self, session: Session, step: int) -> None:
        """Count steps between the last logged one and the checkpoint at ``step`` for the attempt that saved it."""
        has_trained = (Attempt.run_id == self.run_id) & Attempt.ended_at.is_not(None) & Attempt.first_step.is_not(None)
        last_number = select(func.max(Attempt.number)).where(has_trained).scalar_subquery()
        wrote_checkpoint = has_trained & (Attempt.number == last_number) & (Attempt.last_step < step)
        session.execute(update(Attempt).where(wrote_checkpoint).values(last_step=step))

    def skip_elapsed_time(self) -> None:
        """Leave the time since the last write out of the run's time, because another process has counted it."""
        self._time_counted_until = time.monotonic()

    def enter(self, phase: Phase, total: int, done: int = 0) -> None:
        """Begin a phase with ``total`` units of work, such as steps, rows or tokens."""
        logger.info("%s, %s of %s", phase, done, total)
        self.write_and_commit(phase=phase, phase_total=total, phase_done=done)

    def advance(self, done: int) -> None:
        """Set how many units of the phase are done; write at most once a second."""
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_WRITES:
            self.write_and_commit(phase_done=done)

    def log_step(self, step: Step) -> None:
        """Add a step with the next write, because a commit for each would delay short steps. A kill loses it."""
        self._waiting_steps.append(step)
        self.advance(step.step)

    def has_logged_up_to(self, step: int, log_every: int) -> bool:
        """Return whether the last logged step is less than ``log_every`` steps before ``step``, that of a checkpoint.

        If not, another machine has restarted the run from an earlier step and removed the later ones.
        """
        with self.sessions() as session:
            last_step = session.scalar(select(func.max(Step.step)).where(Step.run_id == self.run_id))
        return (last_step or 0) + log_every > step

    def write_and_commit(self, **values: Any) -> None:
        with self.sessions.begin() as session:
            self.write(session, **values)

    def write(self, session: Session, **values: Any) -> None:
        """Set columns and add waiting steps, or raise RunStoppedError. Call it first: then nothing else is written.

        Call it once in a session. If its transaction is rolled back, steps and time wait for the next write.
        """
        now, unwritten = time.monotonic(), (self._time_counted_until, self._worked_seconds, [*self._waiting_steps])

        def restore(_: Session) -> None:
            self._time_counted_until, self._worked_seconds, self._waiting_steps = unwritten

        event.listen(session, "after_rollback", restore, once=True)
        elapsed, self._time_counted_until = now - self._time_counted_until, now
        self._worked_seconds += elapsed
        values = {"worked_seconds": func.coalesce(Run.worked_seconds, 0.0) + elapsed} | values
        runs_here = (Run.id == self.run_id) & (Run.status == RunStatus.RUNNING) & (Run.worker == self.slot)
        if session.scalar(update(Run).where(runs_here).values(**values).returning(Run.id)) is None:
            raise RunStoppedError
        for step in self._waiting_steps:
            session.merge(step)
        self._waiting_steps.clear()
        session.execute(self._update_attempt.values(seconds=Attempt.seconds + elapsed, peak_bytes=read_peak_memory()))
        if (status := values.get("status")) is not None:
            end_attempts(session, Attempt.run_id == self.run_id, AttemptOutcome(status))
        self._written_at = now


class SilentProgress(Progress):
    """The progress of a run in all its processes but the first, which write nothing."""

    def enter(self, phase: Phase, total: int, done: int = 0) -> None: ...

    def write(self, session: Session, **values: Any) -> None:
        self._written_at = time.monotonic()
