"""The rows that pages show. The job engine's own tables live elsewhere and are never read here."""

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, ForeignKey, MetaData, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeEngine

from app.db.config import Regularizer
from app.db.types import UtcDateTime, new_id, stored_by_value, utcnow


class EmbeddingStatus(StrEnum):
    """An upload's way: inspected by a worker, committed by the user, measured by a worker."""

    INSPECTING = "inspecting"
    DRAFT = "draft"
    MEASURING = "measuring"
    READY = "ready"
    FAILED = "failed"


class FileRole(StrEnum):
    """What a file of an embedding holds: rows of vectors, or the names and labels of all rows."""

    VECTORS = "vectors"
    ANNOTATIONS = "annotations"


class CurveStatus(StrEnum):
    """A shrinkage-zeta curve against another embedding, asked for after the report was made."""

    QUEUED = "queued"
    READY = "ready"
    FAILED = "failed"


class MeasurementStatus(StrEnum):
    """Whether a measure has a value here. Where it has none, the reason is stored instead of NaN."""

    OK = "ok"
    UNDEFINED = "undefined"


class RunStatus(StrEnum):
    """A run's way. ``finished``, ``failed`` and ``cancelled`` are final."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing happens to the run any more."""
        return self not in UNFINISHED


UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)
"""States of a run that still waits for a worker, or is at one."""


class Phase(StrEnum):
    """What a running run is doing."""

    LOADING = "loading"
    SHRINKAGE = "shrinkage"
    TRAINING = "training"
    EVALUATING = "evaluating"


class DatasetOrigin(StrEnum):
    """Where a data set's rows come from."""

    UPLOAD = "upload"
    SAMPLE = "sample"
    GLUE = "glue"


class Base(DeclarativeBase):
    """Names every constraint the same on both databases, so that migrations can name them too."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, TypeEngine[Any]]] = {
        datetime: UtcDateTime(),
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
        EmbeddingStatus: stored_by_value(EmbeddingStatus),
        FileRole: stored_by_value(FileRole),
        CurveStatus: stored_by_value(CurveStatus),
        MeasurementStatus: stored_by_value(MeasurementStatus),
        RunStatus: stored_by_value(RunStatus),
        Phase: stored_by_value(Phase),
        DatasetOrigin: stored_by_value(DatasetOrigin),
        Regularizer: stored_by_value(Regularizer),
    }


class StoredFile(Base):
    """The bytes of an upload, kept once under their hash however often they are uploaded."""

    __tablename__ = "files"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(default=utcnow)


class Embedding(Base):
    """An uploaded matrix of embeddings: what was found in its files, what was chosen, how far it is."""

    __tablename__ = "embeddings"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    filename: Mapped[str] = mapped_column(String(255))
    """What the files are called together."""
    format: Mapped[str] = mapped_column(String(16))
    status: Mapped[EmbeddingStatus] = mapped_column(default=EmbeddingStatus.INSPECTING, index=True)
    commit_when_inspected: Mapped[bool] = mapped_column(default=False)
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    inspection: Mapped[dict[str, Any] | None]
    """What the files hold: see ``app.formats.inspection``."""
    selection: Mapped[dict[str, Any] | None]
    """Which part of it is the matrix, its names and its labels: see ``app.formats.selection``."""
    n: Mapped[int | None]
    d: Mapped[int | None]
    n_left_out: Mapped[int | None]
    """Rows with NaN or infinity, which no measure sees."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    measured_at: Mapped[datetime | None]

    files: Mapped[list["EmbeddingFile"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="EmbeddingFile.position", lazy="selectin"
    )
    measurements: Mapped[list["Measurement"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="Measurement.measure"
    )
    curves: Mapped[list["ZetaCurve"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, foreign_keys="ZetaCurve.embedding_id"
    )

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)


class EmbeddingFile(Base):
    """A file of an embedding: its vectors, or a shard of them, or what names and labels the rows."""

    __tablename__ = "embedding_files"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    """The rows of one shard lie below those of the one before."""
    role: Mapped[FileRole] = mapped_column(default=FileRole.VECTORS)
    filename: Mapped[str] = mapped_column(String(255))
    file_sha256: Mapped[str] = mapped_column(ForeignKey("files.sha256"), index=True)

    stored: Mapped[StoredFile] = relationship(lazy="joined", innerjoin=True)

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return self.stored.size_bytes


class Measurement(Base):
    """One measure of one embedding. ``detail`` holds what is not a single number: a spectrum, a profile."""

    __tablename__ = "measurements"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    measure: Mapped[str] = mapped_column(String(40), primary_key=True)
    """Slug of ``isotropy.catalog``."""
    status: Mapped[MeasurementStatus]
    value: Mapped[float | None]
    se: Mapped[float | None]
    """Standard error of the value, in its units, where one is known."""
    reason: Mapped[str | None] = mapped_column(Text)
    n: Mapped[int]
    """Rows behind the value."""
    detail: Mapped[dict[str, Any] | None]
    """Lists that pages show, one at most: ``{"values": [number or null]}``, greatest or first at k = 1;
    ``{"by_label": [{"label", "value", "n", "reason"}]}``, each also with "unbiased", a number or null, where that is
    measured; ``{"dimensions": [{"dimension", "value"}]}``; or ``{"parts": {name: number or null}}``. Others are for
    figures."""


class ZetaCurve(Base):
    """IsoScore* at 101 values of zeta, for each of several numbers of rows drawn from the embedding.

    ``source`` is where the shrinkage covariance comes from: ``identity`` (scaled to the data), ``sample``
    (all rows of the same file) or ``embedding`` (``source_id``).
    """

    __tablename__ = "zeta_curves"
    # Of another embedding's covariance there is one curve, however often it is asked for at once.
    __table_args__ = (UniqueConstraint("embedding_id", "source", "source_id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    source: Mapped[str] = mapped_column(String(16))
    source_id: Mapped[str | None] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    status: Mapped[CurveStatus] = mapped_column(default=CurveStatus.QUEUED, index=True)
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    seed: Mapped[int] = mapped_column(default=0)
    lines: Mapped[list[Any] | None]
    """One ``{"rows": m, "values": [101 numbers or null], "reason": str | null}`` for each number of rows."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow)


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
