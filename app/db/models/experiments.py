"""Data sets, experiments and their runs, and the workers that work on them."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.config import Regularizer
from app.db.models.base import Base
from app.db.models.states import DatasetOrigin, Phase, RunStatus
from app.db.types import new_id, utcnow


class Dataset(Base):
    """Train and validation rows of a task, and what their columns hold."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    origin: Mapped[DatasetOrigin]
    glue_name: Mapped[str | None] = mapped_column(String(16))
    train_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    validation_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    train_filename: Mapped[str | None] = mapped_column(String(255))
    validation_filename: Mapped[str | None] = mapped_column(String(255))
    n_train: Mapped[int | None]
    n_validation: Mapped[int | None]
    columns: Mapped[list[Any]]
    """One ``app.formats.tables.Column`` as a dict for each column that both files have."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)


class Experiment(Base):
    """A sweep: runs that differ in regularizer, lambda, zeta and seed, and share everything else."""

    __tablename__ = "experiments"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), index=True)
    config: Mapped[dict[str, Any]]
    """``app.db.config.TrainingConfig``."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)

    dataset: Mapped[Dataset] = relationship()
    runs: Mapped[list["Run"]] = relationship(
        cascade="all, delete-orphan",
        passive_deletes=True,
        order_by="Run.position",
        back_populates="experiment",
    )

    @property
    def status(self) -> RunStatus:
        """The experiment's state by its runs: running until all are final, then as the runs were at worst."""
        states = {run.status for run in self.runs}
        if RunStatus.RUNNING in states or (RunStatus.QUEUED in states and len(states) > 1):
            return RunStatus.RUNNING
        worst_first = (RunStatus.QUEUED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.FINISHED)
        return next((state for state in worst_first if state in states), RunStatus.FINISHED)


class Run(Base):
    """One fine-tune: its coordinates in the sweep, how far it is, what came out, what it ran on."""

    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id", ondelete="CASCADE"), index=True)
    position: Mapped[int]
    config: Mapped[dict[str, Any]]
    """``app.db.config.RunConfig``; the next four columns repeat what is searched and plotted."""
    regularizer: Mapped[Regularizer]
    lam: Mapped[float]
    zeta: Mapped[float]
    seed: Mapped[int]

    status: Mapped[RunStatus] = mapped_column(default=RunStatus.QUEUED, index=True)
    phase: Mapped[Phase | None]
    phase_done: Mapped[int] = mapped_column(default=0)
    phase_total: Mapped[int | None]
    """Unit by phase: points of the shrinkage pass, optimizer steps, validation rows."""
    attempts: Mapped[int] = mapped_column(default=0)
    """Starts since the last checkpoint, so that only a run that gets nowhere is given up."""
    worker: Mapped[str | None] = mapped_column(String(100))
    error: Mapped[str | None] = mapped_column(Text)
    queued_at: Mapped[datetime] = mapped_column(default=utcnow)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    performance: Mapped[float | None]
    isoscore_star: Mapped[float | None]
    isoscore_star_reason: Mapped[str | None] = mapped_column(Text)
    results: Mapped[dict[str, Any] | None]
    """Further metrics, IsoScore* by layer, the reference's own protocol, numbers of rows and tokens."""
    environment: Mapped[dict[str, Any] | None]
    """Model revision, file hashes, package versions, device."""

    experiment: Mapped[Experiment] = relationship(back_populates="runs")
    steps: Mapped[list["Step"]] = relationship(cascade="all, delete-orphan", passive_deletes=True, order_by="Step.step")


class Step(Base):
    """What was logged at one optimizer step of a run."""

    __tablename__ = "steps"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    task_loss: Mapped[float | None]
    penalty: Mapped[float | None]
    """lambda * (1 - IsoScore*) of the batch, as added to the task loss."""
    layers: Mapped[list[Any] | None]
    """IsoScore* of the probe rows by layer, first transformer layer first; null where undefined."""


class Worker(Base):
    """A worker process: alive while its beat is fresh."""

    __tablename__ = "workers"

    slot: Mapped[str] = mapped_column(String(100), primary_key=True)
    device: Mapped[str] = mapped_column(String(100))
    pid: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(default=utcnow)
    heartbeat_at: Mapped[datetime] = mapped_column(default=utcnow)
