"""Encodings: upload texts or a BEIR data set, plan, launch, cancel, delete."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from app.context import Context, makes_room, not_found
from app.core.names import base_name, clean_name
from app.db import job_kinds
from app.db.encoding import FLOAT_BYTES, EncodingConfig, require_within_limits
from app.db.job_kinds import Job
from app.db.models import UNFINISHED_ENCODING, Embedding, Encoding, EncodingStatus, Qrels, StoredFile
from app.db.types import new_id, utcnow
from app.embeddings.service import drop_embeddings
from app.sandbox import read_in_sandbox
from app.storage import Incoming, Stored
from app.storage.storage import CHECKING_PREFIX
from app.training.datasets import get_dataset
from app.training.models import require_model
from app.web.dependencies import Row
from isoscope.core.beir_layout import CORPUS, QUERIES, ZIP_SUFFIX, is_beir
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError
from isoscope.core.formatting import listed, plural, quote
from isoscope.files.beir import TEXT, describe_beir
from isoscope.files.columns import MAX_LABELS, Column, TextsDescription, describe_texts
from isoscope.files.text import Quoting
from isoscope.files.upload import NamedFile
from isotropy.catalog import FEWEST_GROUPS

LAUNCHABLE = (EncodingStatus.DRAFT, EncodingStatus.FAILED, EncodingStatus.CANCELLED)
Split = Literal["train", "validation"]


class EncodingPlan(Row):
    """The embeddings that a configuration makes; null where a model of the Hub has to be fetched first."""

    rows: Annotated[int, Field(description="At most this many texts. Empty ones are left out.")]
    layers: int | None
    embeddings: int | None
    dimensions: int | None
    size_bytes: Annotated[int | None, Field(description="Bytes of all vectors on disk.")]
    queries: Annotated[int, Field(description="Texts encoded with it: the queries of a BEIR corpus.")]
    matches: Annotated[int | None, Field(description="Pairs with at least the minimum score; null if uncounted.")]


def list_encodings(context: Context) -> list[Encoding]:
    return context.scalars(select(Encoding).order_by(Encoding.created_at.desc(), Encoding.id))


def get_encoding(context: Context, encoding_id: str) -> Encoding:
    with context.sessions() as session:
        return _read_encoding(session, encoding_id)


def find_queries(context: Context, corpus: Encoding) -> Encoding | None:
    """Return the queries of a BEIR corpus; None for other texts, or if they were deleted."""
    return context.get(Encoding, corpus.qrels[0].queries_id) if corpus.qrels else None


def create_encoding(context: Context, files: Sequence[Incoming], name: str | None = None) -> Encoding:
    """Store texts and return a draft with their columns; of a BEIR data set, the draft of its corpus.

    The request waits until a sandbox has read the columns, because the form on the next page lists them.
    """
    if is_beir([file.filename for file in files]):
        return _create_beir(context, files, name)
    filename = base_name(files[0].filename)
    with context.ledger.storing() as store:
        stored = store(files[0].stream, context.settings.max_dataset_bytes)
        return _create_draft(context, stored, filename, clean_name(name, filename.rsplit(".", 1)[0]))


def create_encoding_of_dataset(context: Context, dataset_id: str, split: Split, name: str | None = None) -> Encoding:
    """Return a draft of the texts in a split of a data set. Raise InvalidError if it is not stored here."""
    dataset = get_dataset(context, dataset_id)
    sha256, filename = {
        "train": (dataset.train_sha256, dataset.train_filename),
        "validation": (dataset.validation_sha256, dataset.validation_filename),
    }[split]
    if sha256 is None or filename is None:
        raise InvalidError(
            f"{dataset.name} has no files here: a worker fetches them from the Hub for each sweep. Upload the texts as "
            "a file.",
            "dataset_id",
        )
    file = context.get(StoredFile, sha256)
    if file is None:
        raise NotFoundError(f"The data set {dataset_id!r} was just deleted.", "dataset_id")
    draft_name = clean_name(name, f"{dataset.name}, {split}")
    return _create_draft(context, Stored(sha256, file.size_bytes), filename, draft_name, dataset.quoting_of(split))


def _create_draft(
    context: Context, stored: Stored, filename: str, name: str, quoting: Quoting | None = None
) -> Encoding:
    path = context.storage.local_path(stored.sha256)
    description = read_in_sandbox(context.settings, describe_texts, path, filename, quoting)
    with context.ledger.recording(stored) as session:
        encoding = _new_draft(name, filename, stored, description)
        session.add(encoding)
    return get_encoding(context, encoding.id)


def _create_beir(context: Context, files: Sequence[Incoming], name: str | None) -> Encoding:
    filename = base_name(files[0].filename)
    is_zip = filename.lower().endswith(ZIP_SUFFIX)
    corpus_name = clean_name(name, filename[: -len(ZIP_SUFFIX)] if is_zip else "BEIR data set")
    settings = context.settings
    with (
        context.ledger.storing() as store,
        tempfile.TemporaryDirectory(dir=settings.root, prefix=CHECKING_PREFIX) as folder,
    ):

        def store_file(filename: str) -> Stored:
            with Path(folder, Path(filename).name).open("rb") as stream:  # never outside the folder
                return store(stream, settings.max_upload_bytes)

        uploads = [store(file.stream, settings.max_dataset_bytes) for file in files]
        named_files = [
            NamedFile(context.storage.local_path(upload.sha256), base_name(file.filename))
            for file, upload in zip(files, uploads, strict=True)
        ]
        description = read_in_sandbox(settings, describe_beir, named_files, Path(folder), writable=Path(folder))
        corpus_file, queries_file = store_file(CORPUS), store_file(QUERIES)
        qrels_files = [store_file(split.filename) for split in description.splits]
        with context.ledger.recording(corpus_file, queries_file, *qrels_files) as session:
            corpus = _new_draft(corpus_name, CORPUS, corpus_file, description.corpus)
            # With ", queries", the name must not exceed 200 characters.
            queries = _new_draft(f"{corpus_name[:190]}, queries", QUERIES, queries_file, description.queries)
            session.add_all((corpus, queries))
            session.flush()
            session.add_all(
                Qrels(
                    corpus_id=corpus.id,
                    queries_id=queries.id,
                    split=split.name,
                    place=position,
                    judgments=split.judgments,
                    file_sha256=file.sha256,
                )
                for position, (split, file) in enumerate(zip(description.splits, qrels_files, strict=True))
            )
    context.ledger.release(*(upload.sha256 for upload in uploads))
    return get_encoding(context, corpus.id)


def _new_draft(name: str, filename: str, stored: Stored, description: TextsDescription) -> Encoding:
    return Encoding(
        id=new_id(),
        name=name,
        filename=filename,
        file_sha256=stored.sha256,
        n_texts=description.n,
        columns=description.columns,
        quoting=description.quoting,
    )


def plan_encoding(
    context: Context, encoding: Encoding, config: EncodingConfig, *, ask_hub: bool = True
) -> EncodingPlan:
    """Check a configuration and count what it makes. Without ``ask_hub``, accept any model of the Hub."""
    _check_columns(encoding, config)
    if encoding.qrels and config.score_column is not None:
        raise InvalidError("A corpus with queries takes no scores. Upload the pairs as a table.", "score_column")
    model = require_model(context.settings, config.model, ask_hub=ask_hub)
    if config.layers is not None and model.layers is not None and config.layers[-1] > model.layers:
        raise InvalidError(f"{model.name} has layers 0 to {model.layers}, got {config.layers[-1]}.", "layers")
    texts_per_row = 1 if config.score_column is None else 2
    rows = texts_per_row * min(encoding.n_texts, config.max_rows or encoding.n_texts)
    queries = find_queries(context, encoding)
    n_queries = queries.n_texts if queries is not None and queries.status in LAUNCHABLE else 0
    n_model_layers = None if model.layers is None else 1 + model.layers
    n_layers = n_model_layers if config.layers is None else len(config.layers)
    embeddings = None if n_layers is None else n_layers * len(config.poolings)
    size_bytes = None
    if embeddings is not None and model.width is not None:
        size_bytes = embeddings * (rows + n_queries) * model.width * FLOAT_BYTES
    require_within_limits(embeddings or 0, size_bytes or 0)
    scores = next((column for column in encoding.columns if column.name == config.score_column), None)
    matches = None
    if config.match is not None and scores is not None and scores.train_counts is not None:
        counts = zip(scores.values or (), scores.train_counts, strict=True)
        matches = sum(n for score, n in counts if float(score) >= config.match)
    return EncodingPlan(
        rows=rows,
        layers=n_layers,
        embeddings=embeddings,
        dimensions=model.width,
        size_bytes=size_bytes,
        queries=n_queries,
        matches=matches,
    )


def _check_columns(encoding: Encoding, config: EncodingConfig) -> None:
    """Raise InvalidError unless the configured columns exist and hold what they are chosen for."""
    columns_by_name = {column.name: column for column in encoding.columns}

    def get_column(name: str, field: str) -> Column:
        if name not in columns_by_name:
            raise InvalidError(f"The file has no column {quote(name)}: choose one of {listed(columns_by_name)}.", field)
        return columns_by_name[name]

    for name in config.text_columns:
        if get_column(name, "text_columns").n_distinct == 0:
            raise InvalidError(f"The column {quote(name)} is empty in every row: choose another.", "text_columns")
    if len(set(config.text_columns)) < len(config.text_columns):
        raise InvalidError("The same text column was chosen twice: choose two different ones.", "text_columns")
    if config.score_column is not None:
        _check_scores(get_column(config.score_column, "score_column"), config, encoding.n_texts)
    elif config.match is not None:
        raise InvalidError("Only scored pairs have a minimum score. Choose the column of scores.", "match")
    if config.label_column is None:
        return
    if (labels := get_column(config.label_column, "label_column")).values is None:
        n_labels = "more than 1,000" if labels.n_distinct > 1000 else f"{labels.n_distinct:,}"
        raise InvalidError(
            f"The column {quote(labels.name)} has {n_labels} different values, labels at most {MAX_LABELS}: choose the "
            "column that holds the classes, or none.",
            "label_column",
        )


def _check_scores(scores: Column, config: EncodingConfig, n_rows: int) -> None:
    """Raise InvalidError unless a column of the ``n_rows`` texts can be the scores of the configured pairs."""
    if len(config.text_columns) < 2:
        raise InvalidError("Scores need two text columns: choose a second text column.", "text_columns")
    if scores.name in config.text_columns:
        raise InvalidError("The column of scores is a text column too: choose another.", "score_column")
    if config.label_column is not None:
        raise InvalidError("A scored pair has no label: choose labels or scores.", "label_column")
    if scores.not_number is not None:
        raise InvalidError(
            f"The column {quote(scores.name)} has {quote(scores.not_number)}, which is no number: choose another.",
            "score_column",
        )
    if scores.n_distinct < 2:
        raise InvalidError(
            f"The column {quote(scores.name)} needs two different scores: choose another.", "score_column"
        )
    if (n_scored := n_rows - scores.n_missing_train) < FEWEST_GROUPS:
        raise InvalidError(
            f"{plural(n_scored, 'row')} of {n_rows:,} have a score, and judging takes at least {FEWEST_GROUPS}: add "
            "pairs, or choose no scores.",
            "score_column",
        )
    if config.max_rows is not None and config.max_rows < FEWEST_GROUPS:
        raise InvalidError(f"Judging takes at least {FEWEST_GROUPS} scored pairs: use more rows.", "max_rows")


def launch_encoding(context: Context, encoding_id: str, config: EncodingConfig) -> Encoding:
    """Queue a draft, or an encoding that failed or was cancelled. With a corpus, queue its queries if they allow it."""
    encoding = get_encoding(context, encoding_id)
    _require_launchable(encoding)
    plan = plan_encoding(context, encoding, config)
    context.require_room(plan.size_bytes or 0)
    queries = find_queries(context, encoding)
    with context.sessions.begin() as session:
        launched = _queue_encoding(session, encoding_id, config)
        if launched and queries is not None:
            cleared_fields = dict.fromkeys(("label_column", "score_column", "match", "max_rows"))
            queries_config = config.model_copy(update={"text_columns": [TEXT], **cleared_fields})
            _queue_encoding(session, queries.id, queries_config)
    encoding = get_encoding(context, encoding_id)
    if not launched:
        _require_launchable(encoding)
    return encoding


def _require_launchable(encoding: Encoding) -> None:
    if encoding.status not in LAUNCHABLE:
        raise ConflictError(
            f"Only a draft, or one that failed or was cancelled, can be launched; this encoding is {encoding.status}."
        )


def _queue_encoding(session: Session, encoding_id: str, config: EncodingConfig) -> bool:
    """Queue an encoding and return True; return False if its status no longer allows it."""
    launchable = update(Encoding).where(Encoding.id == encoding_id, Encoding.status.in_(LAUNCHABLE))
    queued = launchable.values(
        config=config, status=EncodingStatus.QUEUED, queued_at=utcnow(), done=0, total=None, attempts=0,
        error=None, environment=None, started_at=None, finished_at=None,
    )  # fmt: skip
    return session.scalar(queued.returning(Encoding.id)) is not None


@makes_room
def cancel_encoding(context: Context, encoding_id: str) -> Encoding:
    cancelled = _mark_cancelled(context, encoding_id)
    encoding = get_encoding(context, encoding_id)
    if not cancelled:
        raise ConflictError(f"Only a queued or running encoding can be cancelled; this one is {encoding.status}.")
    context.queue.cancel(Job(job_kinds.ENCODE, encoding_id))
    return encoding


@makes_room
def delete_encoding(context: Context, encoding_id: str) -> None:
    get_encoding(context, encoding_id)
    # Cancel first, so that no worker adds embeddings in between.
    _mark_cancelled(context, encoding_id)
    context.queue.cancel(Job(job_kinds.ENCODE, encoding_id))
    with context.sessions.begin() as session:
        encoding = _read_encoding(session, encoding_id)
        layer_ids = session.scalars(select(Embedding.id).where(Embedding.encoding_id == encoding_id)).all()
        jobs, hashes = drop_embeddings(session, layer_ids)
        corpus_or_queries = or_(Qrels.corpus_id == encoding_id, Qrels.queries_id == encoding_id)
        hashes += session.scalars(select(Qrels.file_sha256).where(corpus_or_queries))
        session.delete(encoding)
    context.queue.cancel(*jobs)
    context.ledger.release(encoding.file_sha256, *hashes)


def _read_encoding(session: Session, encoding_id: str) -> Encoding:
    if (encoding := session.get(Encoding, encoding_id)) is None:
        raise not_found("encoding", encoding_id)
    return encoding


def _mark_cancelled(context: Context, encoding_id: str) -> bool:
    """Set an unfinished encoding's status to cancelled. Return whether it was unfinished."""
    update_unfinished = update(Encoding).where(Encoding.id == encoding_id, Encoding.status.in_(UNFINISHED_ENCODING))
    cancellation = update_unfinished.values(status=EncodingStatus.CANCELLED, finished_at=utcnow())
    with context.sessions.begin() as session:
        return session.scalar(cancellation.returning(Encoding.id)) is not None
