"""Data sets, experiments on them, and what is kept beside: sealed scores, imports."""

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
    """Train, validation and, where there are any, test rows of a task, and what their columns hold."""

    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    origin: Mapped[DatasetOrigin]
    hub_name: Mapped[str | None] = mapped_column(String(16))
    """Which of the tasks that are known by name: see ``app.db.hub_tasks``."""
    train_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    validation_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    test_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    train_filename: Mapped[str | None] = mapped_column(String(255))
    validation_filename: Mapped[str | None] = mapped_column(String(255))
    test_filename: Mapped[str | None] = mapped_column(String(255))
    n_train: Mapped[int | None]
    n_validation: Mapped[int | None]
    n_test: Mapped[int | None]
    """Null without a test split; else every run scores these rows, and the scores are sealed."""
    division: Mapped[Division | None] = mapped_column(Typed(Division))
    """How the rows of an uploaded file were divided among the splits."""
    columns: Mapped[list[Column]] = mapped_column(Typed(list[Column]))
    """Those that all files have."""
    quoting: Mapped[dict[str, Quoting] | None] = mapped_column(Typed(dict[str, Quoting]))
    """How the quotes of .tsv files are read, by split, of each file that holds any.

    Null in data sets stored before quotes were detected.
    """
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)

    def quoting_of(self, split: str) -> Quoting:
        """Return how the quotes of a split are read; where nothing is known as before they were detected, as text."""
        return (self.quoting or {}).get(split, Quoting.TEXT)


class Experiment(Described, Base):
    """A sweep: runs that differ in regularizer, lambda, zeta, seed and what its grid names, and share all else."""

    __tablename__ = "experiments"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), index=True)
    config: Mapped[AnyConfig] = mapped_column(CONFIG)
    """Of a field of the grid, its first value."""
    grid: Mapped[dict[str, list[Any]]] = mapped_column(default=dict)
    """The values of every further field that the runs differ in, by its name."""
    origin: Mapped[ExperimentOrigin] = mapped_column(default=ExperimentOrigin.LAUNCHED)
    source: Mapped[dict[str, Any] | None]
    """Of an imported one: what its export says of where and when it was made."""
    study: Mapped[Search | None] = mapped_column(Typed(Search))
    """Of a search for the best lambda and zeta; its runs are made one after another."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    removed_at: Mapped[datetime | None]
    """When it was deleted: hidden from then on (``app.db.session``), until all of its rows are removed."""

    notified_at: Mapped[datetime | None]
    """When its end was told; null while it goes on, and again when runs are retried."""

    held: Mapped[str | None] = mapped_column(Text)
    """Why its waiting runs were paused by a worker: its first run failed. Null once they are resumed."""

    dataset: Mapped[Dataset] = relationship()
    tags: Mapped[list["ExperimentTag"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="func.lower(ExperimentTag.tag)"
    )
    runs: Mapped[list["Run"]] = relationship(
        cascade="all, delete-orphan",
        passive_deletes=True,
        order_by="Run.position",
        back_populates="experiment",
    )

    @property
    def logged(self) -> bool:
        """Whether a user's script wrote its runs, here or where it was imported from: nothing else of them is known."""
        return self.config.logged

    @property
    def searching(self) -> bool:
        """Whether more runs may follow those that there are: its search is not over."""
        return self.study is not None and not self.study.over

    @property
    def search_paused(self) -> bool:
        """Whether its search waits to be resumed, whatever its runs do."""
        return self.study is not None and self.searching and self.study.paused

    @property
    def ended(self) -> bool:
        """Whether nothing happens to it any more by itself."""
        return not self.searching and all(run.status.final for run in self.runs)

    @property
    def status(self) -> RunStatus:
        """The experiment's state by its runs, and whether more of them follow."""
        return self.status_with(run.status for run in self.runs)

    def status_with(self, statuses: Iterable[RunStatus]) -> RunStatus:
        """The experiment's state, of runs in these: between two trials of a search it runs, or is paused."""
        states = set(statuses)
        if self.searching and all(state.final for state in states):
            return RunStatus.PAUSED if self.search_paused else RunStatus.RUNNING
        return overall(states)


class ExperimentTag(Base):
    """A word that a user put on an experiment, to find it by."""

    __tablename__ = "experiment_tags"

    experiment_id: Mapped[str] = mapped_column(ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(MAX_TAG_CHARACTERS), primary_key=True, index=True)


def overall(statuses: Iterable[RunStatus]) -> RunStatus:
    """The state of several runs together: running until all are final, then as the runs were at worst."""
    states = set(statuses)
    if RunStatus.RUNNING in states or (RunStatus.QUEUED in states and len(states) > 1):
        return RunStatus.RUNNING
    first = (RunStatus.STREAMING, RunStatus.QUEUED, RunStatus.PAUSED, RunStatus.FAILED, RunStatus.CANCELLED)
    return next((state for state in first if state in states), RunStatus.FINISHED)


class SealedScore(Base):
    """What a finished run scored on the test rows. Nothing reads it before its experiment has an ``Opening``."""

    __tablename__ = "test_scores"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    metrics: Mapped[dict[str, float | None]]
    """Every metric of the task by name, null where undefined."""
    reasons: Mapped[dict[str, str]]
    """Why a metric is undefined, by its name."""
    n: Mapped[int]
    """Test rows."""
    rows_sha256: Mapped[str] = mapped_column(String(64), index=True)
    """Names the test rows whatever their order or file format: see ``workers.training.evaluation``."""


class Opening(Base):
    """A choice that was made for an experiment before, or after, its test scores were shown. Append only.

    The first opening of an experiment is the one that counts; every later one is a choice changed afterward.
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


class Import(Base):
    """One archive on its way in. Its experiment and data set stay hidden (``app.db.session``) until it finishes."""

    __tablename__ = "imports"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    filename: Mapped[str] = mapped_column(String(255))
    file_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    """The archive; null once the import has ended."""
    status: Mapped[ImportStatus] = mapped_column(default=ImportStatus.QUEUED, index=True)
    content: Mapped[str | None] = mapped_column(String(64))
    """A hash of the rows that were checked: two imports of the same rows never go on together."""
    written: Mapped[dict[str, int]] = mapped_column(default=dict)
    """Rows written so far by member of the archive, so that an import goes on where it was killed."""
    total: Mapped[int | None]
    """Rows of all members; null until the archive has been checked."""
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)
    page: Mapped[str | None] = mapped_column(String(200))
    """Path of what the error names."""
    experiment_id: Mapped[str | None] = mapped_column(ForeignKey("experiments.id", ondelete="SET NULL"), index=True)
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"), index=True)
    """Only a data set that this import made."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    started_at: Mapped[datetime | None]
    """When the last attempt began; who began last writes."""
    finished_at: Mapped[datetime | None]

    @property
    def done(self) -> int:
        """Rows written so far."""
        return sum(self.written.values())
