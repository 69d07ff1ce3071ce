"""Encodings: texts through a model, every layer an embedding: upload, plan, launch, follow, delete."""

from collections.abc import Sequence
from typing import BinaryIO, Literal, NamedTuple

from sqlalchemy import select, update
from sqlalchemy.orm import Session, defer, lazyload, selectinload

from app.context import Context
from app.db.encoding import FLOAT_BYTES, EncodingConfig, require_sensible
from app.db.models import UNFINISHED_ENCODING, Embedding, Encoding, EncodingStatus, Measurement, StoredFile
from app.db.types import utcnow
from app.errors import ConflictError, InvalidError, IsoscopeError, NotFoundError
from app.formats.columns import Column
from app.formats.labels import MAX_LABELS
from app.formats.tables import TextsDescription, describe_texts
from app.formats.wording import listed, shown
from app.queue import Job, JobKind
from app.sandbox import run_in_sandbox
from app.services.datasets import get_dataset
from app.services.models import ModelChoice, require_model
from app.services.names import base_name, clean_name
from app.services.results import drop_embeddings
from app.storage import Stored

LAUNCHABLE = (EncodingStatus.DRAFT, EncodingStatus.FAILED, EncodingStatus.CANCELLED)

Split = Literal["train", "validation"]


class EncodingPlan(NamedTuple):
    """What a configuration would make. What a model of the Hub has is known only when it has been fetched."""

    rows: int
    """Texts at most; those that are empty are left out."""
    layers: int | None
    embeddings: int | None
    dimensions: int | None
    size_bytes: int | None
    """Of all vectors, on the disk."""
    model_layers: int | None


class LayerPlace(NamedTuple):
    """Where an encoded embedding stands among the layers of its encoding."""

    encoding: Encoding
    previous: str | None
    following: str | None
    """Ids of the layers before and after it, under the same pooling."""


def create_encoding(context: Context, texts: BinaryIO, filename: str, name: str | None = None) -> Encoding:
    """Keep a file of texts and describe its columns: a draft, until it is launched.

    It is read in a process of its own, within limits, while the request waits: the form that comes next needs the
    columns.
    """
    filename = base_name(filename)
    stored: Stored | None = None
    try:
        stored = context.ledger.store(texts, context.settings.max_dataset_bytes)
        return _create(context, stored, filename, clean_name(name, filename.rsplit(".", 1)[0]))
    except IsoscopeError:
        if stored is not None:
            context.ledger.release(stored.sha256)
        raise


def create_encoding_of_dataset(context: Context, dataset_id: str, split: Split, name: str | None = None) -> Encoding:
    """Take the texts of a data set that is here already, its train or its validation file."""
    dataset = get_dataset(context, dataset_id)
    of = {
        "train": (dataset.train_sha256, dataset.train_filename),
        "validation": (dataset.validation_sha256, dataset.validation_filename),
    }
    sha256, filename = of[split]
    if sha256 is None or filename is None:
        raise InvalidError(
            f"{dataset.name} has no files here: a worker fetches them from the Hub for each sweep. Upload the texts as "
            "a file.",
            "dataset_id",
        )
    with context.sessions() as session:
        file = session.get(StoredFile, sha256)
    if file is None:
        raise NotFoundError(f"The data set {dataset_id!r} was deleted at this moment.", "dataset_id")
    return _create(context, Stored(sha256, file.size_bytes), filename, clean_name(name, f"{dataset.name}, {split}"))


def list_encodings(context: Context) -> list[Encoding]:
    """All encodings, newest first."""
    with context.sessions() as session:
        return list(session.scalars(select(Encoding).order_by(Encoding.created_at.desc(), Encoding.id)))


def get_encoding(context: Context, encoding_id: str) -> Encoding:
    """One encoding, without its embeddings."""
    with context.sessions() as session:
        return _find(session, encoding_id)


def list_layers(context: Context, encoding_id: str, measures: Sequence[str] | None = None) -> list[Embedding]:
    """The embeddings of an encoding by layer and pooling, with these measurements or all, without their details.

    Two queries, however many there are; those in the trash are left out.
    """
    found = select(Embedding).where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None))
    wanted = (
        Embedding.measurements if measures is None else Embedding.measurements.and_(Measurement.measure.in_(measures))
    )
    options = (
        defer(Embedding.inspection, raiseload=True),
        defer(Embedding.selection, raiseload=True),
        lazyload(Embedding.files),
        lazyload(Embedding.tags),
        selectinload(wanted).defer(Measurement.detail, raiseload=True),
    )
    with context.sessions() as session:
        layers = session.scalars(found.order_by(Embedding.layer, Embedding.pooling).options(*options))
        return list(layers)


def list_measured(context: Context, encoding_id: str) -> set[str]:
    """The measures that have a value at some layer of an encoding that is not in the trash."""
    of_layers = select(Measurement.measure).join(Embedding, Embedding.id == Measurement.embedding_id)
    in_use = of_layers.where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None))
    valued = in_use.where(Measurement.value.is_not(None))
    with context.sessions() as session:
        return set(session.scalars(valued.distinct()))


def get_place(context: Context, embedding: Embedding) -> LayerPlace | None:
    """Where an embedding stands among the layers of its encoding; None if it is of none, or deleted meanwhile."""
    if embedding.encoding_id is None:
        return None
    beside = select(Embedding.id).where(
        Embedding.encoding_id == embedding.encoding_id,
        Embedding.pooling == embedding.pooling,
        Embedding.trashed_at.is_(None) | (Embedding.id == embedding.id),
    )
    with context.sessions() as session:
        encoding = session.get(Encoding, embedding.encoding_id)
        ids = list(session.scalars(beside.order_by(Embedding.layer)))
    if encoding is None or embedding.id not in ids:
        return None
    own = ids.index(embedding.id)
    return LayerPlace(encoding, ids[own - 1] if own else None, ids[own + 1] if own + 1 < len(ids) else None)


def plan_encoding(
    context: Context, encoding: Encoding, config: EncodingConfig, *, ask_hub: bool = True
) -> EncodingPlan:
    """Check a configuration against the file and the model, and say what it would make.

    Raises:
        InvalidError: at the field that is wrong.

    """
    _check_columns([Column.model_validate(column) for column in encoding.columns], config)
    model = require_model(context.settings, config.model, ask_hub=ask_hub)
    _check_layers(model, config)
    rows = min(encoding.n_texts, config.max_rows or encoding.n_texts)
    n_layers = len(config.layers) if config.layers is not None else None
    if n_layers is None and model.layers is not None:
        n_layers = 1 + model.layers
    embeddings = None if n_layers is None else n_layers * len(config.poolings)
    size_bytes = None
    if embeddings is not None and model.width is not None:
        size_bytes = embeddings * rows * model.width * FLOAT_BYTES
    require_sensible(embeddings or 0, size_bytes or 0)
    return EncodingPlan(rows, n_layers, embeddings, model.width, size_bytes, model.layers)


def launch_encoding(context: Context, encoding_id: str, config: EncodingConfig) -> Encoding:
    """Hand a draft to the workers as ``config`` says, or again one that failed or was cancelled."""
    encoding = get_encoding(context, encoding_id)
    _require_launchable(encoding)
    plan_encoding(context, encoding, config)
    waiting = update(Encoding).where(Encoding.id == encoding_id, Encoding.status.in_(LAUNCHABLE))
    queued = waiting.values(
        config=config.model_dump(mode="json"),
        status=EncodingStatus.QUEUED,
        done=0,
        total=None,
        attempts=0,
        error=None,
        environment=None,
        started_at=None,
        finished_at=None,
    )
    with context.sessions.begin() as session:
        launched = session.scalar(queued.returning(Encoding.id))
    if launched is None:
        _require_launchable(get_encoding(context, encoding_id))
    context.queue.restart(Job(JobKind.ENCODE, encoding_id))
    return get_encoding(context, encoding_id)


def cancel_encoding(context: Context, encoding_id: str) -> Encoding:
    """Stop an encoding that waits or runs."""
    if not _mark_cancelled(context, encoding_id):
        encoding = get_encoding(context, encoding_id)
        raise ConflictError(f"Only a queued or running encoding can be cancelled; this one is {encoding.status}.")
    context.queue.cancel(Job(JobKind.ENCODE, encoding_id))
    return get_encoding(context, encoding_id)


def delete_encoding(context: Context, encoding_id: str) -> None:
    """Delete an encoding in any state, its embeddings, and the files that nobody else needs."""
    get_encoding(context, encoding_id)
    # First, so that no worker adds embeddings meanwhile.
    _mark_cancelled(context, encoding_id)
    context.queue.cancel(Job(JobKind.ENCODE, encoding_id))
    with context.sessions.begin() as session:
        encoding = _find(session, encoding_id)
        layers = session.scalars(select(Embedding.id).where(Embedding.encoding_id == encoding_id)).all()
        jobs, left = drop_embeddings(session, layers)
        session.delete(encoding)
    for job in jobs:
        context.queue.cancel(job)
    context.ledger.release(encoding.file_sha256, *left)


def _create(context: Context, stored: Stored, filename: str, name: str) -> Encoding:
    found = _describe(context, stored, filename)
    with context.ledger.recording(stored) as session:
        encoding = Encoding(
            name=name,
            filename=filename,
            file_sha256=stored.sha256,
            n_texts=found.n,
            columns=[column.model_dump(mode="json") for column in found.columns],
        )
        session.add(encoding)
    return encoding


def _describe(context: Context, stored: Stored, filename: str) -> TextsDescription:
    return run_in_sandbox(
        describe_texts,
        context.storage.local(stored.sha256),
        filename,
        memory_bytes=context.settings.parse_memory_bytes,
        seconds=context.settings.parse_seconds,
    )


def _find(session: Session, encoding_id: str) -> Encoding:
    if (encoding := session.get(Encoding, encoding_id)) is None:
        raise NotFoundError(f"There is no encoding {encoding_id!r}; it may have been deleted.")
    return encoding


def _require_launchable(encoding: Encoding) -> None:
    if encoding.status not in LAUNCHABLE:
        raise ConflictError(
            f"Only a draft, or one that failed or was cancelled, can be launched; this encoding is {encoding.status}."
        )


def _mark_cancelled(context: Context, encoding_id: str) -> bool:
    stopped = update(Encoding).where(Encoding.id == encoding_id, Encoding.status.in_(UNFINISHED_ENCODING))
    cancelled = stopped.values(status=EncodingStatus.CANCELLED, finished_at=utcnow())
    with context.sessions.begin() as session:
        return session.scalar(cancelled.returning(Encoding.id)) is not None


def _check_columns(columns: Sequence[Column], config: EncodingConfig) -> None:
    by_name = {column.name: column for column in columns}

    def find(name: str, field: str) -> Column:
        if name not in by_name:
            raise InvalidError(f"The file has no column {shown(name)}: choose one of {listed(by_name)}.", field)
        return by_name[name]

    for name in config.text_columns:
        if find(name, "text_columns").n_distinct == 0:
            raise InvalidError(f"The column {shown(name)} is empty in every row: choose another.", "text_columns")
    if len(set(config.text_columns)) < len(config.text_columns):
        raise InvalidError("The same text column was chosen twice: choose two different ones.", "text_columns")
    if config.label_column is None:
        return
    if (labels := find(config.label_column, "label_column")).values is None:
        counted = "more than 1,000" if labels.n_distinct > 1000 else f"{labels.n_distinct:,}"
        raise InvalidError(
            f"The column {shown(labels.name)} has {counted} different values, labels at most {MAX_LABELS}: choose the "
            "column that holds the classes, or none.",
            "label_column",
        )


def _check_layers(model: ModelChoice, config: EncodingConfig) -> None:
    if config.layers is not None and model.layers is not None and config.layers[-1] > model.layers:
        raise InvalidError(
            f"Expected layers from 0 to {model.layers}, which is what {model.name} has, got {config.layers[-1]}.",
            "layers",
        )
