"""Data sets, experiments, sealed scores, imports."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.config import TrainingConfig
from app.db.models.base import MAX_TAG_CHARACTERS, Base, Described
from app.db.reported_config import AnyConfig, ConfigColumn, ReportedConfig
from app.db.states import ChoiceKind, DatasetOrigin, ExperimentOrigin, ImportStatus, RunStatus
from app.db.study import Search
from app.db.types import Typed, new_id, utcnow
from isoscope.files.columns import Column
from isoscope.files.division import Division
from isoscope.files.text import Quoting

if TYPE_CHECKING:
    from app.db.models.runs import Run

CONFIG = ConfigColumn(TrainingConfig, ReportedConfig)


class Dataset(Base):
    """Rows of a task by split, and their columns."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    origin: Mapped[DatasetOrigin]
    # See app.db.hub_tasks.
    hub_name: Mapped[str | None] = mapped_column(String(16))
    train_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    validation_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    test_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    train_filename: Mapped[str | None] = mapped_column(String(255))
    validation_filename: Mapped[str | None] = mapped_column(String(255))
    test_filename: Mapped[str | None] = mapped_column(String(255))
    n_train: Mapped[int | None]
    n_validation: Mapped[int | None]
    # Null without a test split. Every run is scored on these rows, and the scores are sealed.
    n_test: Mapped[int | None]
    division: Mapped[Division | None] = mapped_column(Typed(Division))
    # Columns that all files have.
    columns: Mapped[list[Column]] = mapped_column(Typed(list[Column]))
    # Quoting of .tsv files by split; null in data sets stored before quotes were detected.
    quoting: Mapped[dict[str, Quoting] | None] = mapped_column(Typed(dict[str, Quoting]))
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)

    def quoting_of(self, split: str) -> Quoting:
        """Return the quoting of a split; ``Quoting.TEXT`` if it was not detected."""
        return (self.quoting or {}).get(split, Quoting.TEXT)


class Experiment(Described, Base):
    """A sweep: runs that differ in regularizer, lambda, zeta, seed and grid, and share all else."""

    __tablename__ = "experiments"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), index=True)
    # The first value of each field in ``grid``.
    config: Mapped[AnyConfig] = mapped_column(CONFIG)
    # The values of each further field in which the runs differ.
    grid: Mapped[dict[str, list[Any]]] = mapped_column(default=dict)
    origin: Mapped[ExperimentOrigin] = mapped_column(default=ExperimentOrigin.LAUNCHED)
    # Where and when the imported archive was made; null unless imported.
    source: Mapped[dict[str, Any] | None]
    # The search for the best lambda and zeta, if any. Its runs are created one after another.
    study: Mapped[Search | None] = mapped_column(Typed(Search))
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    # When it was deleted. It is hidden (app.db.session) until all of its rows are removed.
    removed_at: Mapped[datetime | None]
    # When the webhook was told that it ended; null before, and again when runs are retried.
    notified_at: Mapped[datetime | None]
    # Why a worker paused its waiting runs after the first run failed; null once they are resumed.
    held: Mapped[str | None] = mapped_column(Text)

    dataset: Mapped[Dataset] = relationship()
    tags: Mapped[list["ExperimentTag"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="func.lower(ExperimentTag.tag)"
    )
    runs: Mapped[list["Run"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="Run.position", back_populates="experiment"
    )

    @property
    def logged(self) -> bool:
        """Return whether a user's script logged its runs, here or on the dashboard it was imported from."""
        return self.config.logged

    @property
    def accepts_seeds(self) -> bool:
        """Return whether seeds can be added: it was launched here, and no search chose settings by their results."""
        return self.origin is ExperimentOrigin.LAUNCHED and self.study is None

    @property
    def searching(self) -> bool:
        return self.study is not None and not self.study.over

    @property
    def search_paused(self) -> bool:
        return self.study is not None and self.searching and self.study.paused

    @property
    def ended(self) -> bool:
        return not self.searching and all(run.status.final for run in self.runs)

    @property
    def status(self) -> RunStatus:
        return self.combine_status(run.status for run in self.runs)

    def combine_status(self, statuses: Iterable[RunStatus]) -> RunStatus:
        """Return the status of this experiment given those of its runs. It goes on until its search is over."""
        states = set(statuses)
        if self.searching and all(state.final for state in states):
            return RunStatus.PAUSED if self.search_paused else RunStatus.RUNNING
        return status_of_runs(states)


class ExperimentTag(Base):
    """A user's tag of an experiment."""

    __tablename__ = "experiment_tags"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(MAX_TAG_CHARACTERS), primary_key=True, index=True)


def status_of_runs(statuses: Iterable[RunStatus]) -> RunStatus:
    """Return one status for several runs: running if one runs or only some are queued, else by precedence."""
    states = set(statuses)
    if RunStatus.RUNNING in states or (RunStatus.QUEUED in states and len(states) > 1):
        return RunStatus.RUNNING
    by_precedence = (RunStatus.STREAMING, RunStatus.QUEUED, RunStatus.PAUSED, RunStatus.FAILED, RunStatus.CANCELLED)
    return next((state for state in by_precedence if state in states), RunStatus.FINISHED)


class SealedScore(Base):
    """A finished run's score on the test rows. Nothing reads it before its experiment has an ``Opening``."""

    __tablename__ = "test_scores"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    # Every metric of the task by name, null where undefined.
    metrics: Mapped[dict[str, float | None]]
    # Why a metric is undefined, by its name.
    reasons: Mapped[dict[str, str]]
    n: Mapped[int]
    # Identifies the test rows in any order or file format: see workers.training.evaluation.
    rows_sha256: Mapped[str] = mapped_column(String(64), index=True)


class Opening(Base):
    """A choice of a setting or a run for which an experiment's test scores were opened. Rows are only ever added.

    The first opening of an experiment counts; later ones changed the choice after seeing test scores. Openings outlive
    their experiment, because openings of the same test rows are counted.
    """

    __tablename__ = "openings"
    __table_args__ = (UniqueConstraint("experiment_id", "number"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    # Preserved by export and import, so that an opening counts once.
    record_id: Mapped[str] = mapped_column(String(32), default=new_id, index=True)
    experiment_id: Mapped[str | None] = mapped_column(ForeignKey("experiments.id", ondelete="SET NULL"), index=True)
    experiment_name: Mapped[str] = mapped_column(String(200))
    # Number within its experiment, from 1.
    number: Mapped[int]
    kind: Mapped[ChoiceKind]
    # Position of the chosen run in its experiment; for a setting, of its first run.
    position: Mapped[int]
    # The choice as it was shown.
    label: Mapped[str] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    by: Mapped[str] = mapped_column(String(200))
    at: Mapped[datetime] = mapped_column(default=utcnow)
    rows_sha256: Mapped[str] = mapped_column(String(64), index=True)
    # Choices that had been opened on the same test rows before, in any experiment.
    opened_before: Mapped[int]


class Import(Base):
    """An archive being imported. Its experiment and data set stay hidden (``app.db.session``) until it finishes."""

    __tablename__ = "imports"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    filename: Mapped[str] = mapped_column(String(255))
    # The archive; null once the import has ended.
    file_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    status: Mapped[ImportStatus] = mapped_column(default=ImportStatus.QUEUED, index=True)
    # A hash of the checked rows, so that two imports of the same rows never run together.
    content: Mapped[str | None] = mapped_column(String(64))
    # Rows written so far by file of the archive, so that an import continues where it was killed.
    written: Mapped[dict[str, int]] = mapped_column(default=dict)
    # Rows of all files of the archive; null until it has been checked.
    total: Mapped[int | None]
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)
    # Path of the page that the error refers to.
    page: Mapped[str | None] = mapped_column(String(200))
    experiment_id: Mapped[str | None] = mapped_column(ForeignKey("experiments.id", ondelete="SET NULL"), index=True)
    # Its data set, if this import created it.
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    # Start of the last attempt, the only one that may write.
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    @property
    def done(self) -> int:
        return sum(self.written.values())
