"""Runs, their attempts, logs and predictions, and workers."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from pydantic import BaseModel
from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, PrimaryKeyConstraint, String, Text, text
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.core.training_cost import MachineSpeed
from app.db.config import RunConfig
from app.db.models.base import MAX_TAG_CHARACTERS, Base, Tagged
from app.db.models.experiments import Experiment
from app.db.reported_config import AnyRunConfig, ConfigColumn, ReportedRunConfig
from app.db.run_results import Learning, RunResults
from app.db.states import AttemptOutcome, FailureCause, Phase, RunStatus, Split
from app.db.types import Typed, new_id, utcnow
from isotropy.catalog import Regularizer

LOST_AFTER = timedelta(seconds=60)  # without a heartbeat


class Attempt(Base):
    """A process that worked on a run. At most one attempt of a run has not ended: its last."""

    __tablename__ = "attempts"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    # From 1, over all attempts ever made.
    number: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[str] = mapped_column(String(100))
    started_at: Mapped[datetime] = mapped_column(default=utcnow)
    # For a lost worker, its last heartbeat.
    ended_at: Mapped[datetime | None]
    # By a monotonic clock.
    seconds: Mapped[float] = mapped_column(default=0.0)
    # The most memory it used, of its GPU or else of the machine; null if unknown.
    peak_bytes: Mapped[int | None] = mapped_column(BigInteger)
    outcome: Mapped[AttemptOutcome | None]
    # The signal, or the sentence of a failure.
    detail: Mapped[str | None] = mapped_column(Text)
    # The step of the checkpoint that it resumed from, 0 without one; null if it never trained.
    first_step: Mapped[int | None]
    # The last step that was logged or saved in a checkpoint.
    last_step: Mapped[int | None]


DEFAULT_PRIORITY = 100
CONFIG = ConfigColumn(RunConfig, ReportedRunConfig)


class Timed:
    """A run with start, end and working time."""

    __slots__ = ()
    started_at: Any
    finished_at: Any
    rested_seconds: Any
    worked_seconds: Any
    status: Any

    @property
    def seconds(self) -> float | None:
        """Return the seconds of work on the run; None before its start, or if its end is unknown.

        If no worker counted them, return the wall-clock time from start to end, or until now, minus pauses.
        """
        if self.started_at is None:
            return None
        if self.worked_seconds is not None:
            return float(self.worked_seconds)
        if self.status.final and self.finished_at is None:
            return None
        elapsed = (self.finished_at or utcnow()) - self.started_at
        return max(0.0, float(elapsed.total_seconds() - self.rested_seconds))


class Run(Timed, Tagged, Base):
    """One fine-tune: its configuration, progress, results and environment."""

    __tablename__ = "runs"
    __table_args__ = (
        Index(None, "experiment_id", "position"),
        # Covers what lists of experiments aggregate: reading full rows takes ten times as long.
        Index(None, "experiment_id", "status", "lam", "performance"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id", ondelete="CASCADE"))
    position: Mapped[int]
    config: Mapped[AnyRunConfig] = mapped_column(CONFIG)
    # This and the next four columns repeat fields of ``config`` that are searched and plotted.
    model: Mapped[str] = mapped_column(
        String(200), default=lambda context: CONFIG.check(context.get_current_parameters()["config"]).model, index=True
    )
    regularizer: Mapped[Regularizer]
    lam: Mapped[float]
    zeta: Mapped[float]
    seed: Mapped[int]
    # 1, or more if the seed was added in a later round. Results are looked at after each round.
    seed_round: Mapped[int] = mapped_column(default=1)

    status: Mapped[RunStatus] = mapped_column(default=RunStatus.QUEUED, index=True)
    phase: Mapped[Phase | None]
    phase_done: Mapped[int] = mapped_column(default=0)
    # Unit by phase: points of the shrinkage pass, optimizer steps, validation rows.
    phase_total: Mapped[int | None]
    # Starts since the last checkpoint. A run fails if there are too many, because it makes no progress.
    attempts: Mapped[int] = mapped_column(default=0)
    # Whether it needs its device for itself, because memory ran out when it shared one.
    whole_device: Mapped[bool] = mapped_column(default=False)
    # Lower numbers go first.
    priority: Mapped[int] = mapped_column(default=DEFAULT_PRIORITY)
    worker: Mapped[str | None] = mapped_column(String(100))
    error: Mapped[str | None] = mapped_column(Text)
    cause: Mapped[FailureCause | None]
    # The setting that ``error`` is about, if any.
    error_field: Mapped[str | None] = mapped_column(String(64))
    queued_at: Mapped[datetime] = mapped_column(default=utcnow)
    started_at: Mapped[datetime | None]
    # When it ended or, if it is paused, when it stopped.
    finished_at: Mapped[datetime | None]
    # Time between start and end in which it was paused or waited to be retried.
    rested_seconds: Mapped[float] = mapped_column(default=0.0)
    # Seconds of work since step 0 by monotonic clocks; null unless a worker of this version ran it.
    worked_seconds: Mapped[float | None]
    # Last message of a user's own script.
    heard_at: Mapped[datetime | None]

    performance: Mapped[float | None]
    performance_reason: Mapped[str | None] = mapped_column(Text)
    isoscore_star: Mapped[float | None]
    isoscore_star_reason: Mapped[str | None] = mapped_column(Text)
    results: Mapped[RunResults | None] = mapped_column(Typed(RunResults))
    # Repeats a part of ``results``, so that lists and figures of many runs need not read all of it.
    learning: Mapped[Learning | None] = mapped_column(Typed(Learning))
    # Sentences for the run page, such as that its batch had to be halved.
    notes: Mapped[list[str]] = mapped_column(default=list)
    # The last lines of its processes, a few seconds old while it trains.
    log: Mapped[str | None] = mapped_column(Text)
    # The trained model as a zip file, if ``export`` is set.
    model_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    # Model revision, file hashes, package versions, device; tokens and texts of the probe.
    environment: Mapped[dict[str, Any] | None]

    experiment: Mapped[Experiment] = relationship(back_populates="runs")
    steps: Mapped[list["Step"]] = relationship(cascade="all, delete-orphan", passive_deletes=True, order_by="Step.step")
    # Attempts, earliest first.
    timeline: Mapped[list[Attempt]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by=Attempt.number
    )
    tags: Mapped[list["RunTag"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="func.lower(RunTag.tag)"
    )

    @classmethod
    def from_config(cls, position: int, config: RunConfig, **values: Any) -> Self:
        """Return a waiting run with a configuration; ``values`` set further columns."""
        settings = {name: getattr(config, name) for name in ("regularizer", "lam", "zeta", "seed")}
        return cls(position=position, config=config, **settings, **values)

    @property
    def launched_config(self) -> RunConfig:
        if not isinstance(self.config, RunConfig):
            raise TypeError(f"expected a run that was launched, got {self.id}, which its script reported")
        return self.config

    @property
    def experiment_name(self) -> str:
        return self.experiment.name

    @property
    def setting(self) -> dict[str, Any]:
        """Return the run's value of each grid field, including fields without effect on it."""
        settings = self.config.dump()
        return {field: settings.get(field) for field in self.experiment.grid}


class RunTag(Base):
    """A user's tag of a run."""

    __tablename__ = "run_tags"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(MAX_TAG_CHARACTERS), primary_key=True, index=True)


_HAS_LAYERS = text("layers IS NOT NULL")


class Step(Base):
    """Logged values of one optimizer step."""

    __tablename__ = "steps"
    __table_args__ = (
        # Curves of many runs are read from the index only, because rows with measured layers are wide.
        PrimaryKeyConstraint("run_id", "step", postgresql_include=["task_loss", "penalty"]),
        Index("ix_steps_looks", "run_id", "step", sqlite_where=_HAS_LAYERS, postgresql_where=_HAS_LAYERS),
    )

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    task_loss: Mapped[float | None]
    # lambda * (1 - IsoScore*) of the batch, as added to the task loss.
    penalty: Mapped[float | None]
    # Measures of the probe rows by layer, first transformer layer first; null where undefined.
    layers: Mapped[dict[str, list[float | None]] | None]


# The order in which waiting runs are taken.
QUEUE_ORDER = (Run.priority, Run.queued_at, Run.position, Run.id)

# Steps at which layers were measured, with values by measure, first layer first.
LayerMeasurements = Sequence[tuple[int, Mapping[str, Sequence[float | None] | None]]]


class RunFigure(Base):
    """Data of a finished run's figure. It is large, so only that figure reads it.

    ``activation``: ``{"n", "mean": [d], "std": [d]}`` of the sentence vectors of the last layer.
    """

    __tablename__ = "run_figures"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    slug: Mapped[str] = mapped_column(String(40), primary_key=True)
    data: Mapped[dict[str, Any]]


class RunPredictions(Base):
    """Predictions of a run for each row of a split, packed as by ``app.db.predictions``."""

    __tablename__ = "run_predictions"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    split: Mapped[Split] = mapped_column(primary_key=True)
    n: Mapped[int]
    data: Mapped[bytes] = mapped_column(LargeBinary)


class RunningJob(BaseModel):
    """A job that a worker runs, with the current and peak memory of all its processes, null if unknown."""

    # The engine's name of the job, ``app.db.job_kinds.Job.workflow_id``.
    id: str
    since: datetime
    memory_bytes: int | None
    peak_bytes: int | None

    @property
    def kind(self) -> str:
        return self.id.partition("-")[0]

    @property
    def row_id(self) -> str:
        return self.id.partition("-")[2]


class DeviceLoad(BaseModel):
    """Utilization and memory of a GPU, over all its processes."""

    busy_percent: float
    used_bytes: int
    total_bytes: int


class Worker(Base):
    """A worker process."""

    __tablename__ = "workers"

    slot: Mapped[str] = mapped_column(String(100), primary_key=True)
    device: Mapped[str] = mapped_column(String(100))
    pid: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(default=utcnow)
    heartbeat_at: Mapped[datetime] = mapped_column(default=utcnow)
    # Memory of its machine or container; null if unknown.
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    jobs: Mapped[list[RunningJob] | None] = mapped_column(Typed(list[RunningJob]))
    # Null without a GPU, or if its driver reports nothing.
    load: Mapped[DeviceLoad | None] = mapped_column(Typed(DeviceLoad))
    # Null until its device was timed.
    speed: Mapped[MachineSpeed | None] = mapped_column(Typed(MachineSpeed))

    @hybrid_property
    def alive(self) -> bool:
        return self.heartbeat_at > utcnow() - LOST_AFTER
