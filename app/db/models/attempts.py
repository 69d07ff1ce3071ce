"""Attempts at runs: when and where each began, from which step, and how it ended."""

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.models.states import AttemptOutcome
from app.db.types import utcnow


class Attempt(Base):
    """One process that worked on a run. A run has at most one that has not ended: its last."""

    __tablename__ = "attempts"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    """From 1, over all that the run was ever tried."""
    worker: Mapped[str] = mapped_column(String(100))
    started_at: Mapped[datetime] = mapped_column(default=utcnow)
    ended_at: Mapped[datetime | None]
    """Of a lost worker: when it was last heard."""
    seconds: Mapped[float] = mapped_column(default=0.0)
    """Work until its last word, by a clock that nobody sets."""
    outcome: Mapped[AttemptOutcome | None]
    detail: Mapped[str | None] = mapped_column(Text)
    """What is known beyond the outcome: the signal, or the sentence of a failure."""
    first_step: Mapped[int | None]
    """The step of the checkpoint that training resumed from, 0 without one; null if it never came to train."""
    last_step: Mapped[int | None]
    """The last step that was logged when it ended."""
