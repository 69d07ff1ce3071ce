"""Encodings: upload texts, check what an encoding would make, launch, follow, delete."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.context import Context, freeing, missing
from app.core.names import base_name, clean_name
from app.db import job_kinds
from app.db.encoding import FLOAT_BYTES, EncodingConfig, require_sensible
from app.db.job_kinds import Job
from app.db.models import UNFINISHED_ENCODING, Embedding, Encoding, EncodingStatus, StoredFile
from app.db.types import utcnow
from app.embeddings.service import drop_embeddings
from app.encodings.beir import config_of_queries, create_beir, draft_of, kept_qrels, queries_of
from app.sandbox import read_in_sandbox
from app.storage import Incoming, Stored
from app.training.datasets import get_dataset
from app.training.models import require_model
from isoscope.core.beir_layout import is_beir
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError
from isoscope.core.formatting import listed, shown
from isoscope.files.columns import MAX_LABELS, Column
from isoscope.files.tables import TextsDescription, describe_texts
from isoscope.files.text import Quoting


class EncodingPlan(NamedTuple):
    """What a configuration would make. What a model of the Hub has is known only when it has been fetched."""

    rows: int
    """At most this many texts. Empty ones are left out."""
    layers: int | None
    embeddings: int | None
    dimensions: int | None
    size_bytes: int | None
    """Bytes of all vectors on disk, those of the queries too."""
    model_layers: int | None
    queries: int = 0
    """Texts that are encoded alike: the queries of a BEIR data set, whose corpus this is."""


def plan_encoding(
    context: Context, encoding: Encoding, config: EncodingConfig, *, ask_hub: bool = True
) -> EncodingPlan:
    """Check a configuration against the file and the model, and say what it would make.

    Raises:
        InvalidError: at the field that is wrong.

    """
    _check_columns(encoding.columns, config)
    model = require_model(context.settings, config.model, ask_hub=ask_hub)
    if config.layers is not None and model.layers is not None and config.layers[-1] > model.layers:
        raise InvalidError(
            f"Expected layers from 0 to {model.layers}, which is what {model.name} has, got {config.layers[-1]}.",
            "layers",
        )
    rows = min(encoding.n_texts, config.max_rows or encoding.n_texts)
    asking = queries_of(context, encoding)
    queries = asking.n_texts if asking is not None and asking.status in LAUNCHABLE else 0
    n_layers = len(config.layers) if config.layers is not None else None
    if n_layers is None and model.layers is not None:
        n_layers = 1 + model.layers
    embeddings = None if n_layers is None else n_layers * len(config.poolings)
    size_bytes = None
    if embeddings is not None and model.width is not None:
        size_bytes = embeddings * (rows + queries) * model.width * FLOAT_BYTES
    require_sensible(embeddings or 0, size_bytes or 0)
    return EncodingPlan(rows, n_layers, embeddings, model.width, size_bytes, model.layers, queries)


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


LAUNCHABLE = (EncodingStatus.DRAFT, EncodingStatus.FAILED, EncodingStatus.CANCELLED)

Split = Literal["train", "validation"]


def create_encoding(context: Context, files: Sequence[Incoming], name: str | None = None) -> Encoding:
    """Keep a file of texts and describe its columns: a draft, until it is launched; of a BEIR data set its corpus.

    It is read in a process of its own, within limits, while the request waits: the form that comes next needs the
    columns.
    """
    if is_beir([file.filename for file in files]):
        return create_beir(context, files, name)
    filename = base_name(files[0].filename)
    with context.ledger.arriving() as store:
        stored = store(files[0].stream, context.settings.max_dataset_bytes)
        return _create(context, stored, filename, clean_name(name, filename.rsplit(".", 1)[0]))


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
    file = context.get(StoredFile, sha256)
    if file is None:
        raise NotFoundError(f"The data set {dataset_id!r} was deleted at this moment.", "dataset_id")
    stored, quoting = Stored(sha256, file.size_bytes), dataset.quoting_of(split)
    return _create(context, stored, filename, clean_name(name, f"{dataset.name}, {split}"), quoting)


def list_encodings(context: Context) -> list[Encoding]:
    """All encodings, newest first."""
    return context.scalars(select(Encoding).order_by(Encoding.created_at.desc(), Encoding.id))


def get_encoding(context: Context, encoding_id: str) -> Encoding:
    """One encoding, without its embeddings."""
    with context.sessions() as session:
        return _find(session, encoding_id)


def launch_encoding(context: Context, encoding_id: str, config: EncodingConfig) -> Encoding:
    """Hand a draft to the workers as ``config`` says, or again one that failed or was cancelled.

    The queries that came with a corpus go with it, unless they were launched already.
    """
    encoding = get_encoding(context, encoding_id)
    _require_launchable(encoding)
    plan = plan_encoding(context, encoding, config)
    context.require_room(plan.size_bytes or 0)
    asking = queries_of(context, encoding)
    with context.sessions.begin() as session:
        launched = _queue(session, encoding_id, config)
        if launched and asking is not None:
            _queue(session, asking.id, config_of_queries(config))
    if not launched:
        _require_launchable(get_encoding(context, encoding_id))
    return get_encoding(context, encoding_id)


def _queue(session: Session, encoding_id: str, config: EncodingConfig) -> bool:
    """Have an encoding wait for a worker, and return whether it could be launched."""
    waiting = update(Encoding).where(Encoding.id == encoding_id, Encoding.status.in_(LAUNCHABLE))
    queued = waiting.values(
        config=config,
        status=EncodingStatus.QUEUED,
        done=0,
        total=None,
        attempts=0,
        error=None,
        environment=None,
        queued_at=utcnow(),
        started_at=None,
        finished_at=None,
    )
    return session.scalar(queued.returning(Encoding.id)) is not None


@freeing
def cancel_encoding(context: Context, encoding_id: str) -> Encoding:
    """Stop an encoding that waits or runs."""
    if not _mark_cancelled(context, encoding_id):
        encoding = get_encoding(context, encoding_id)
        raise ConflictError(f"Only a queued or running encoding can be cancelled; this one is {encoding.status}.")
    context.queue.cancel(Job(job_kinds.ENCODE, encoding_id))
    return get_encoding(context, encoding_id)


@freeing
def delete_encoding(context: Context, encoding_id: str) -> None:
    """Delete an encoding in any state, its embeddings, and the files that nobody else needs."""
    get_encoding(context, encoding_id)
    # First, so that no worker adds embeddings meanwhile.
    _mark_cancelled(context, encoding_id)
    context.queue.cancel(Job(job_kinds.ENCODE, encoding_id))
    with context.sessions.begin() as session:
        encoding = _find(session, encoding_id)
        layers = session.scalars(select(Embedding.id).where(Embedding.encoding_id == encoding_id)).all()
        jobs, left = drop_embeddings(session, layers)
        qrels = kept_qrels(session, encoding_id)
        session.delete(encoding)
    for job in jobs:
        context.queue.cancel(job)
    context.ledger.release(encoding.file_sha256, *left, *qrels)


def _create(context: Context, stored: Stored, filename: str, name: str, quoting: Quoting | None = None) -> Encoding:
    found = _describe(context, stored, filename, quoting)
    with context.ledger.recording(stored) as session:
        encoding = draft_of(name, filename, stored, found)
        session.add(encoding)
    return get_encoding(context, encoding.id)


def _describe(context: Context, stored: Stored, filename: str, quoting: Quoting | None) -> TextsDescription:
    return read_in_sandbox(context.settings, describe_texts, context.storage.local(stored.sha256), filename, quoting)


def _find(session: Session, encoding_id: str) -> Encoding:
    if (encoding := session.get(Encoding, encoding_id)) is None:
        raise missing("encoding", encoding_id)
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
