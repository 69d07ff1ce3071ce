"""Runs, attempts at them, what they logged, and the workers that work on them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, Self

from pydantic import BaseModel
from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, PrimaryKeyConstraint, String, Text, text
from sqlalchemy.engine.default import DefaultExecutionContext
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


DEFAULT_PRIORITY = 100
CONFIG = ConfigColumn(RunConfig, ReportedRunConfig)


def _model(context: DefaultExecutionContext) -> str:
    return CONFIG.check(context.get_current_parameters()["config"]).model  # type: ignore[no-untyped-call]


class Run(Tagged, Base):
    """One fine-tune: its coordinates in the sweep, how far it is, what came out, what it ran on."""

    __tablename__ = "runs"
    __table_args__ = (
        Index(None, "experiment_id", "position"),
        # All that lists of experiments sum over: results and logs make rows so wide that to read these takes ten times
        # as long.
        Index(None, "experiment_id", "status", "lam", "performance"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id", ondelete="CASCADE"))
    position: Mapped[int]
    config: Mapped[AnyRunConfig] = mapped_column(CONFIG)
    """The next five columns repeat what is searched and plotted."""
    model: Mapped[str] = mapped_column(String(200), default=_model, index=True)
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
    priority: Mapped[int] = mapped_column(default=DEFAULT_PRIORITY)
    """Of waiting runs those with lower numbers go first."""
    worker: Mapped[str | None] = mapped_column(String(100))
    error: Mapped[str | None] = mapped_column(Text)
    cause: Mapped[FailureCause | None]
    """Of a failed one: what kind of failure ``error`` tells of."""
    error_field: Mapped[str | None] = mapped_column(String(64))
    """Of a failed one: the setting that ``error`` is about, where it is about one."""
    queued_at: Mapped[datetime] = mapped_column(default=utcnow)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    """When work on it came to rest: it ended, or was paused and has not gone on."""
    rested_seconds: Mapped[float] = mapped_column(default=0.0)
    """Between its start and its end, while it was paused or had ended and waited to be tried again."""
    worked_seconds: Mapped[float | None]
    """Work since it last began at step 0, by clocks that nobody sets; null where no worker of this version had it."""
    heard_at: Mapped[datetime | None]
    """Of a run of a user's own script: when that last said anything of it."""

    performance: Mapped[float | None]
    performance_reason: Mapped[str | None] = mapped_column(Text)
    isoscore_star: Mapped[float | None]
    isoscore_star_reason: Mapped[str | None] = mapped_column(Text)
    results: Mapped[RunResults | None] = mapped_column(Typed(RunResults))
    learning: Mapped[Learning | None] = mapped_column(Typed(Learning))
    """What ``results`` say of it: lists and figures of many runs do not read the rest."""
    notes: Mapped[list[str]] = mapped_column(default=list)
    """What happened on the way and has to be known, such as a batch that had to be halved."""
    log: Mapped[str | None] = mapped_column(Text)
    """The last lines that its processes wrote, while it trains a few seconds old."""
    model_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    """The trained model as a zip file, where it was to be kept."""
    environment: Mapped[dict[str, Any] | None]
    """Model revision, file hashes, package versions, device; the tokens and texts on which layers are watched."""

    experiment: Mapped[Experiment] = relationship(back_populates="runs")
    steps: Mapped[list["Step"]] = relationship(cascade="all, delete-orphan", passive_deletes=True, order_by="Step.step")
    timeline: Mapped[list[Attempt]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by=Attempt.number
    )
    """Its attempts, the first one first."""
    tags: Mapped[list["RunTag"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="func.lower(RunTag.tag)"
    )

    @classmethod
    def launched(cls, position: int, config: RunConfig, **values: Any) -> Self:
        """Return a run that waits to be trained with a configuration; ``values`` are of further columns."""
        settings = {name: getattr(config, name) for name in ("regularizer", "lam", "zeta", "seed")}
        return cls(position=position, config=config, **settings, **values)

    @property
    def launched_config(self) -> RunConfig:
        """The configuration of a run that a worker trains; raises TypeError for one that a script reported."""
        if not isinstance(self.config, RunConfig):
            raise TypeError(f"expected a run that was launched, got {self.id}, which its script reported")
        return self.config

    @property
    def experiment_name(self) -> str:
        """What its experiment is called."""
        return self.experiment.name

    @property
    def seconds(self) -> float | None:
        """How long it was worked on; None before the start or without a known end.

        Where no worker counted, it is the time between the start and the end, or now, as the wall clock had it.
        """
        return seconds_between(self)

    @property
    def setting(self) -> dict[str, Any]:
        """Its value of every field of the experiment's grid, also of those that make no difference to it."""
        settings = self.config.dump()
        return {field: settings.get(field) for field in self.experiment.grid}


class Times(Protocol):
    """When a run was worked on."""

    started_at: Any
    finished_at: Any
    rested_seconds: Any
    worked_seconds: Any
    status: Any


def seconds_between(run: Times) -> float | None:
    """Return what ``Run.seconds`` is."""
    if run.started_at is None:
        return None
    if run.worked_seconds is not None:
        return float(run.worked_seconds)
    if run.status.final and run.finished_at is None:
        return None
    between = (run.finished_at or utcnow()) - run.started_at
    return max(0.0, float(between.total_seconds() - run.rested_seconds))


class RunTag(Base):
    """A word that a user put on a run, to find it by."""

    __tablename__ = "run_tags"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(MAX_TAG_CHARACTERS), primary_key=True, index=True)


_LOOKED = text("layers IS NOT NULL")


class Step(Base):
    """What was logged at one optimizer step of a run."""

    __tablename__ = "steps"
    __table_args__ = (
        # Curves of many runs are read of the index alone: the rows are wide where layers were looked at.
        PrimaryKeyConstraint("run_id", "step", postgresql_include=["task_loss", "penalty"]),
        Index("ix_steps_looks", "run_id", "step", sqlite_where=_LOOKED, postgresql_where=_LOOKED),
    )

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    task_loss: Mapped[float | None]
    penalty: Mapped[float | None]
    """lambda * (1 - IsoScore*) of the batch, as added to the task loss."""
    layers: Mapped[dict[str, list[float | None]] | None]
    """Measures of the probe rows by layer, first transformer layer first; null where undefined."""


IN_TURN = (Run.priority, Run.queued_at, Run.position, Run.id)
"""The order in which waiting runs are taken."""

Looks = Sequence[tuple[int, Mapping[str, Sequence[float | None] | None]]]
"""The steps at which a run's layers were looked at, and what some measures were then, first layer first."""


class RunFigure(Base):
    """What a figure of a finished run shows and its row does not hold; large, so that only that figure reads it.

    ``activation``: ``{"n", "mean": [d], "std": [d]}`` of the sentence vectors of the last layer.
    """

    __tablename__ = "run_figures"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    slug: Mapped[str] = mapped_column(String(40), primary_key=True)
    data: Mapped[dict[str, Any]]


class RunPredictions(Base):
    """What a run predicted for each row of a split of its data set; ``app.db.predictions`` packs and reads it."""

    __tablename__ = "run_predictions"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    split: Mapped[Split] = mapped_column(primary_key=True)
    n: Mapped[int]
    """Rows."""
    data: Mapped[bytes] = mapped_column(LargeBinary)


class JobAtWork(BaseModel):
    """A job that a worker has now, with the memory of all its processes, null where the system does not tell."""

    id: str
    """The engine's name of the job."""
    since: datetime
    memory_bytes: int | None
    peak_bytes: int | None


class Worker(Base):
    """A worker process: alive while its beat is fresh."""

    __tablename__ = "workers"

    slot: Mapped[str] = mapped_column(String(100), primary_key=True)
    device: Mapped[str] = mapped_column(String(100))
    pid: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(default=utcnow)
    heartbeat_at: Mapped[datetime] = mapped_column(default=utcnow)
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Of its machine, or what its container may have of that; null where the system does not tell."""
    jobs: Mapped[list[JobAtWork] | None] = mapped_column(Typed(list[JobAtWork]))
    speed: Mapped[MachineSpeed | None] = mapped_column(Typed(MachineSpeed))
    """Null until its device was timed."""
