"""Create, read, launch, cancel and delete task runs."""

import tempfile
from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import and_, case, delete, func, select, update

from app.context import MAX_CHOICES, Context, makes_room, not_found
from app.core.names import base_name
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import UNFINISHED_TASK, Embedding, EmbeddingStatus, TaskRun, TaskStatus
from app.db.models.embeddings import MAP_IDS_IN_USE
from app.db.task import TaskConfig, TaskResults
from app.db.types import utcnow
from app.embeddings.service import get_embedding, require_measured
from app.sandbox import read_in_sandbox
from app.storage import Incoming
from app.storage.storage import CHECKING_PREFIX
from isoscope.core.errors import ConflictError, InvalidError, TooLargeError, check_all
from isoscope.core.formatting import listed, plural, quote
from isoscope.files.ground_truth import NamedRows, check_pairs, check_qrels
from isoscope.files.selection import Selection
from isotropy.catalog import TruthKind

MAX_NUMBERS = 2**28
"""Maximum numbers (rows x dimensions) in an embedding of a task: 1 GiB in float32. The worker holds several copies."""
LAUNCHABLE = (TaskStatus.DRAFT, TaskStatus.FAILED, TaskStatus.CANCELLED)
MISSING_FILE_MESSAGES = {
    TruthKind.QUERIES: "Choose a file of query ids, document ids and relevance.",
    TruthKind.PAIRS: "Choose a file of pairs with scores.",
}
KINDS_WITH_QUERIES = (TruthKind.QUERIES, TruthKind.COMPRESSION)
MAP_COLUMNS = (TaskRun.chosen_sha256, TaskRun.smallest_sha256, TaskRun.cutoff_sha256)
MAP_IN_USE = "This task is making an embedding. Try again when that has finished."


def create_task(
    context: Context,
    embedding_id: str,
    config: TaskConfig,
    queries_id: str | None = None,
    truth: Incoming | None = None,
    *,
    launch: bool = True,
) -> TaskRun:
    """Check a task against the rows and queue it; without ``launch`` it stays a draft.

    The ground truth is read in a sandbox while the request waits, and stored as JSON lines.
    """
    corpus = get_embedding(context, embedding_id)
    queries = None if queries_id is None else get_embedding(context, queries_id)
    check_inputs = partial(_check_inputs, config, queries, truth)
    check_all(config.check, check_inputs, partial(check_columns, config, corpus, queries))
    check_vectors(corpus, queries)
    task = TaskRun(embedding_id=corpus.id, queries_id=queries_id, config=config)
    if truth is None:
        with context.sessions.begin() as session:
            session.add(task)
    else:
        _save_truth(context, task, truth, corpus, queries)
    return launch_task(context, task.id) if launch else get_task(context, task.id)


@dataclass(frozen=True)
class TaskSummary:
    """A task run in a list."""

    id: str
    embedding_id: str
    queries_id: str | None
    config: TaskConfig
    filename: str | None
    status: TaskStatus
    done: int
    total: int | None
    error: str | None
    created_at: datetime
    conclusion: str | None


def list_tasks(context: Context, embedding_id: str, *, limit: int, offset: int = 0) -> list[TaskSummary]:
    """Return task runs of an embedding, newest first, without the scores of variants."""
    get_embedding(context, embedding_id)
    *column_names, conclusion_name = (field.name for field in fields(TaskSummary))
    columns = [*(getattr(TaskRun, name) for name in column_names), TaskRun.results[conclusion_name]]
    query = select(*columns).where(TaskRun.embedding_id == embedding_id)
    newest = query.order_by(TaskRun.created_at.desc(), TaskRun.id).limit(limit).offset(offset)
    with context.sessions() as session:
        return [TaskSummary(*row) for row in session.execute(newest)]


def count_tasks(context: Context, embedding_id: str) -> int:
    return context.scalar(select(func.count()).where(TaskRun.embedding_id == embedding_id)) or 0


class QueriesChoice(NamedTuple):
    """An embedding that may hold the queries of a task."""

    id: str
    name: str
    n: int | None


def list_queries(context: Context, corpus: Embedding) -> list[QueriesChoice]:
    """Return other measured embeddings with equally many dimensions: the same layer first, then the newest."""
    candidates = select(Embedding.id, Embedding.name, Embedding.n).where(
        Embedding.id != corpus.id,
        Embedding.d == corpus.d,
        Embedding.status == EmbeddingStatus.READY,
        Embedding.trashed_at.is_(None),
    )
    same_layer = and_(Embedding.layer == corpus.layer, Embedding.pooling == corpus.pooling)
    order = case((same_layer, 0), else_=1), Embedding.created_at.desc(), Embedding.id
    with context.sessions() as session:
        return [QueriesChoice(*row) for row in session.execute(candidates.order_by(*order).limit(MAX_CHOICES))]


def get_task(context: Context, task_id: str) -> TaskRun:
    if (task := context.get(TaskRun, task_id)) is None:
        raise not_found("task", task_id)
    return task


def get_results(context: Context, task_id: str) -> TaskResults:
    task = get_task(context, task_id)
    if task.results is None:
        raise ConflictError(f"This task is {task.status}; it has results when it has finished.")
    return task.results


def launch_task(context: Context, task_id: str, match: float | None = None) -> TaskRun:
    """Queue a draft, or a task that failed or was cancelled.

    ``match`` replaces the minimum score of a match; with it, finished pairs are judged again.
    """
    task = get_task(context, task_id)
    statuses = LAUNCHABLE if match is None else (*LAUNCHABLE, TaskStatus.FINISHED)
    _require_status(task, statuses)
    config = task.config if match is None else task.config.model_copy(update={"match": match})
    config.check(None if task.preview is None else task.preview.score_range)
    corpus = get_embedding(context, task.embedding_id)
    check_vectors(corpus, None if task.queries_id is None else get_embedding(context, task.queries_id))
    context.require_room()
    launchable = update(TaskRun).where(TaskRun.id == task_id, TaskRun.status.in_(statuses))
    cleared_columns = "total", "judged", "error", "notes", "results", "maps", "started_at", "finished_at"
    cleared_values = dict.fromkeys((*cleared_columns, *(column.key for column in MAP_COLUMNS)))
    requeue = launchable.where(TaskRun.id.not_in(MAP_IDS_IN_USE)).values(
        status=TaskStatus.QUEUED, config=config, done=0, attempts=0, **cleared_values
    )
    with context.sessions.begin() as session:
        old_maps = session.execute(select(*MAP_COLUMNS).where(TaskRun.id == task_id)).one_or_none()
        launched_id = session.scalar(requeue.returning(TaskRun.id))
    if launched_id is None or old_maps is None:
        _require_status(get_task(context, task_id), statuses)
        raise ConflictError(MAP_IN_USE)
    context.queue.restart(Job(job_kinds.JUDGE, task_id))
    context.ledger.release(*old_maps)
    return get_task(context, task_id)


@makes_room
def cancel_task(context: Context, task_id: str) -> TaskRun:
    update_unfinished = update(TaskRun).where(TaskRun.id == task_id, TaskRun.status.in_(UNFINISHED_TASK))
    cancellation = update_unfinished.values(status=TaskStatus.CANCELLED, finished_at=utcnow())
    with context.sessions.begin() as session:
        cancelled_id = session.scalar(cancellation.returning(TaskRun.id))
    if cancelled_id is None:
        task = get_task(context, task_id)
        raise ConflictError(f"Only a queued or running task can be cancelled. This one is {task.status}.")
    context.queue.cancel(Job(job_kinds.JUDGE, task_id))
    return get_task(context, task_id)


@makes_room
def delete_task(context: Context, task_id: str) -> None:
    deletion = delete(TaskRun).where(TaskRun.id == task_id, TaskRun.id.not_in(MAP_IDS_IN_USE))
    with context.sessions.begin() as session:
        released_hashes = session.execute(deletion.returning(TaskRun.truth_sha256, *MAP_COLUMNS)).one_or_none()
    if released_hashes is None:
        get_task(context, task_id)  # raises NotFoundError
        raise ConflictError(MAP_IN_USE)
    context.queue.cancel(Job(job_kinds.JUDGE, task_id))
    context.ledger.release(*released_hashes)


def _check_inputs(config: TaskConfig, queries: Embedding | None, truth: Incoming | None) -> None:
    """Raise InvalidError if a task lacks a file or queries that its kind needs, or has inputs that it cannot use."""
    if config.kind in MISSING_FILE_MESSAGES and truth is None:
        raise InvalidError(MISSING_FILE_MESSAGES[config.kind], "file")
    if config.kind not in MISSING_FILE_MESSAGES and truth is not None:
        raise InvalidError(f"A task of kind {config.kind} takes no file. Leave it out, or choose another kind.", "file")
    if config.kind is TruthKind.QUERIES and queries is None:
        raise InvalidError("Choose the embedding of the queries.", "queries_id")
    if config.labels is not None and config.kind is not TruthKind.LABELS:
        raise InvalidError(f"A task of kind {config.kind} takes no labels. Leave them out.", "labels")
    if config.query_ids is not None and queries is None:
        raise InvalidError("There are no queries. Leave their column of ids out.", "query_ids")
    if config.kind not in KINDS_WITH_QUERIES and queries is not None:
        raise InvalidError(
            f"A task of kind {config.kind} takes no queries. Leave them out, or choose another kind.", "queries_id"
        )


def check_columns(config: TaskConfig, corpus: Embedding, queries: Embedding | None) -> None:
    """Raise InvalidError if an embedding lacks a column that a task names.

    For pairs, the column of groups is in the file of the ground truth, and is checked when that file is read.
    """
    required_columns = [("labels", corpus, config.labels), ("ids", corpus, config.ids)]
    if queries is not None:
        required_columns.append(("query_ids", queries, config.query_ids))
    if config.kind is not TruthKind.PAIRS:
        required_columns.append(("groups", queries or corpus, config.groups))
    check_all(*(partial(_require_column, *required) for required in required_columns))


def _require_column(field: str, embedding: Embedding, column: str | None) -> None:
    column_names = [annotation["name"] for annotation in (embedding.inspection or {}).get("annotations", [])]
    if column is not None and column not in column_names:
        columns = f"Columns are: {listed(column_names)}." if column_names else "It has no columns beside the vectors."
        raise InvalidError(f"{embedding.name} has no column {quote(column)}. {columns}", field)


def check_vectors(corpus: Embedding, queries: Embedding | None) -> None:
    """Raise an error unless a task can read the vectors: measured, finite, not too many, of equal dimensions."""
    require_measured(corpus, "a task")
    for field, embedding in (("embedding_id", corpus), ("queries_id", queries)):
        if embedding is None:
            continue
        if embedding.status is not EmbeddingStatus.READY or embedding.trashed_at is not None:
            raise InvalidError(f"{embedding.name} is not measured. Choose a measured embedding.", field)
        if embedding.n_left_out:
            raise InvalidError(
                f"{plural(embedding.n_left_out, 'row')} of {embedding.name} "
                f"{'holds' if embedding.n_left_out == 1 else 'hold'} NaN or infinity. Upload it without them.",
                field,
            )
        if (numbers := (embedding.n or 0) * (embedding.d or 0)) > MAX_NUMBERS:
            raise TooLargeError(
                f"{embedding.name} has {numbers:,} numbers, more than {MAX_NUMBERS:,}, the limit of a task. Upload a "
                "sample of its rows, or run `isoscope decide` on a machine with enough memory.",
                field,
            )
    if queries is not None and queries.d != corpus.d:
        raise InvalidError(
            f"{queries.name} has {queries.d:,} dimensions, {corpus.name} {corpus.d:,}. Encode both with one model.",
            "queries_id",
        )


def _save_truth(context: Context, task: TaskRun, truth: Incoming, corpus: Embedding, queries: Embedding | None) -> None:
    """Check ground truth in the sandbox, store it as JSON lines, and add the task."""
    task.filename = base_name(truth.filename)
    root = context.settings.root
    with context.ledger.storing() as store, tempfile.TemporaryDirectory(dir=root, prefix=CHECKING_PREFIX) as folder:
        stored = store(truth.stream, context.settings.max_dataset_bytes)
        target = Path(folder) / "truth.jsonl"
        read = partial(read_in_sandbox, context.settings, writable=target.parent)
        location = context.storage.local_path(stored.sha256), task.filename
        rows = _to_named_rows(context, corpus, task.config.ids)
        try:
            if queries is not None:
                query_rows = _to_named_rows(context, queries, task.config.query_ids)
                task.preview = read(check_qrels, *location, rows, query_rows, target)
            else:
                task.preview = read(check_pairs, *location, task.config.groups, rows, target)
            task.config.check(task.preview.score_range)
        except InvalidError as error:
            if error.field in (None, "qrels", "pairs"):
                error.field = "file"
            raise
        with target.open("rb") as lines:
            truth_file = store(lines, context.settings.max_upload_bytes)
        with context.ledger.recording(truth_file) as session:
            task.truth_sha256 = truth_file.sha256
            # Tasks with the same ground truth, settings and number of rows are one family.
            query = select(TaskRun).join(Embedding, Embedding.id == TaskRun.embedding_id)
            query = query.where(TaskRun.truth_sha256 == task.truth_sha256, Embedding.n == corpus.n)
            for related_task in session.scalars(query.order_by(TaskRun.created_at, TaskRun.id)):
                if related_task.config.is_comparable_to(task.config):
                    task.family_id = related_task.family_key
                    break
            session.add(task)
    context.ledger.release(stored.sha256)


def _to_named_rows(context: Context, embedding: Embedding, id_column: str | None) -> NamedRows:
    upload = embedding.upload(lambda file: context.storage.local_path(file.file_sha256))
    return NamedRows(upload, Selection.model_validate(embedding.selection), embedding.name, id_column)


def _require_status(task: TaskRun, statuses: Collection[TaskStatus]) -> None:
    if task.status not in statuses:
        raise ConflictError(
            "Only a draft, or a task that failed or was cancelled, can be launched, and finished pairs with `match`. "
            f"This one is {task.status}."
        )
