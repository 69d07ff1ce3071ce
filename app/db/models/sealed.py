"""Test scores of runs, sealed until their experiment is opened, and the record of every opening."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.models.states import ChoiceKind
from app.db.types import new_id, utcnow


class SealedScore(Base):
    """What a finished run scored on the test rows. Nothing reads it before its experiment has an ``Opening``."""

    __tablename__ = "test_scores"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    metrics: Mapped[dict[str, Any]]
    """Every metric of the task by name, null where undefined."""
    reasons: Mapped[dict[str, Any]]
    """Why a metric is undefined, by its name."""
    n: Mapped[int]
    """Test rows."""
    rows_sha256: Mapped[str] = mapped_column(String(64), index=True)
    """Names the test rows whatever their order or file format: see ``workers.finetune.sealed``."""


class Opening(Base):
    """A choice that was made for an experiment before, or after, its test scores were shown. Append only.

    The first opening of an experiment is the one that counts; every later one is a choice changed afterwards.
    Openings outlive their experiment, because they are counted for the test rows.
    """

    __tablename__ = "openings"
    __table_args__ = (UniqueConstraint("experiment_id", "number"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    record_id: Mapped[str] = mapped_column(String(32), default=new_id, index=True)
    """Stays the same through export and import, so that an opening counts once."""
    experiment_id: Mapped[str | None] = mapped_column(ForeignKey("experiments.id", ondelete="SET NULL"), index=True)
    experiment_name: Mapped[str] = mapped_column(String(200))
    number: Mapped[int]
    """From 1 on, in its experiment."""
    kind: Mapped[ChoiceKind]
    position: Mapped[int]
    """Of the chosen run in its experiment; of a chosen setting, the position of its first run."""
    label: Mapped[str] = mapped_column(Text)
    """The choice as it was shown."""
    note: Mapped[str | None] = mapped_column(Text)
    by: Mapped[str] = mapped_column(String(200))
    at: Mapped[datetime] = mapped_column(default=utcnow)
    rows_sha256: Mapped[str] = mapped_column(String(64), index=True)
    opened_before: Mapped[int]
    """How many choices had been opened on the same test rows before, in any experiment."""
