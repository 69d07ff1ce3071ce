"""How far a run is: written into its row, which says in turn whether the run is still wanted."""

import time
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from app.db.models import Phase, Run, RunStatus
from app.db.session import Sessions

SECONDS_BETWEEN_WRITES = 1.0


class RunStoppedError(Exception):
    """The run was cancelled or deleted while it was worked on."""


class Progress:
    """The row of one running run. Every write raises RunStoppedError if the row is no longer running."""

    def __init__(self, sessions: Sessions, run_id: str) -> None:
        self.sessions = sessions
        self.run_id = run_id
        self._written_at = 0.0

    def enter(self, phase: Phase, total: int, done: int = 0) -> None:
        """Begin a phase of ``total`` units."""
        with self.sessions.begin() as session:
            self.write(session, phase=phase, phase_total=total, phase_done=done)

    def advance(self, done: int) -> None:
        """Say how much of the phase is done; may be called often, writes once a second."""
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_WRITES:
            with self.sessions.begin() as session:
                self.write(session, phase_done=done)

    def write(self, session: Session, **values: Any) -> None:
        """Set columns of the row in the caller's transaction; call it first, so that a stop writes nothing."""
        running = update(Run).where(Run.id == self.run_id, Run.status == RunStatus.RUNNING)
        if session.scalar(running.values(**values).returning(Run.id)) is None:
            raise RunStoppedError
        self._written_at = time.monotonic()
