"""Embeddings: upload files, select vectors, measure them; delete results, retry them; read data of figures."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from sqlalchemy import ColumnElement, Delete, case, delete, func, null, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, selectinload

from app.context import Context, not_found
from app.core.names import base_name, clean_name, file_stem, natural_sort_key
from app.db import job_kinds
from app.db.encoding import FLOAT_BYTES
from app.db.job_kinds import Job
from app.db.models import (
    Alignment,
    Embedding,
    EmbeddingFile,
    EmbeddingOrigin,
    EmbeddingStatus,
    FigureData,
    FigureFile,
    FileRole,
    Lookup,
    MapLayout,
    Measurement,
    PostProcessing,
    ResultStatus,
    TaskRun,
    ZetaCurve,
)
from app.storage import Incoming, Stored
from app.web.dependencies import Row
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError, TooLargeError
from isoscope.core.formatting import plural
from isoscope.files.matrix import NO_FINITE_ROW, Inspection
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, check_annotations, common_format
from isotropy.catalog import Similarity

# The kind of job that works on an embedding, by the embedding's status. Other statuses have no job.
JOB_KINDS = {status: kind for kind in job_kinds.KINDS.values() if kind.table is Embedding for status in kind.waiting}
SELECTABLE = (EmbeddingStatus.DRAFT, EmbeddingStatus.READY, EmbeddingStatus.FAILED)
Result = Alignment | Lookup | PostProcessing | ZetaCurve


class EmbeddingSummary(Row):
    """An embedding in a list."""

    id: str
    name: str
    tags: list[Annotated[str, BeforeValidator(lambda tag: getattr(tag, "tag", tag))]]
    filename: str
    format: str
    origin: EmbeddingOrigin
    status: EmbeddingStatus
    error: str | None
    n: int | None
    d: int | None
    n_left_out: int | None
    encoding_id: Annotated[str | None, Field(description="The encoding that it is a layer of.")]
    created_at: datetime
    measured_at: datetime | None
    trashed_at: Annotated[datetime | None, Field(description="When it was put into the trash; null where it was not.")]

    @property
    def tag_names(self) -> list[str]:
        return self.tags


def request_result(context: Context, kind: job_kinds.JobKind, stored_result: Result | None, new_result: Result) -> None:
    """Store and queue ``new_result`` if ``stored_result`` is None. Queue the stored result again if it failed."""
    if stored_result is None:
        with suppress(IntegrityError):  # another request just added the same or deleted an embedding
            with context.sessions.begin() as session:
                session.add(new_result)
            context.queue.enqueue(Job(kind, new_result.id))
    elif stored_result.status is ResultStatus.FAILED:
        table = type(stored_result)
        failed = update(table).where(table.id == stored_result.id, table.status == ResultStatus.FAILED)
        queued = failed.values(status=ResultStatus.QUEUED, error=None, attempts=0)
        with context.sessions.begin() as session:
            retried_id = session.scalar(queued.returning(table.id))
        if retried_id is not None:
            context.queue.restart(Job(kind, stored_result.id))


def deletion_of_oldest(session: Session, table: type[Lookup | PostProcessing], embedding_id: str, limit: int) -> Delete:
    """Return a statement that deletes an embedding's results, but not queued ones or the ``limit`` newest."""
    newest = select(table.id).where(table.embedding_id == embedding_id).order_by(table.created_at.desc(), table.id)
    newest_ids = session.scalars(newest.limit(limit)).all()
    old_results = table.id.not_in(newest_ids), table.status != ResultStatus.QUEUED
    return delete(table).where(table.embedding_id == embedding_id, *old_results)


def drop_embeddings(session: Session, ids: Collection[str]) -> tuple[list[Job], list[str | None]]:
    """Delete embeddings in any state. Return the jobs to cancel and the hashes of files to release."""
    jobs, hashes = drop_results(session, ids)
    hashes += session.scalars(select(EmbeddingFile.file_sha256).where(EmbeddingFile.embedding_id.in_(ids)))
    deleted = delete(Embedding).where(Embedding.id.in_(ids)).returning(Embedding.id, Embedding.status)
    jobs += [Job(JOB_KINDS[status], row_id) for row_id, status in session.execute(deleted) if status in JOB_KINDS]
    return jobs, hashes


def drop_results(session: Session, ids: Collection[str]) -> tuple[list[Job], list[str | None]]:
    """Delete all results of embeddings. Return the jobs to cancel and the hashes of files to release."""
    jobs: list[Job] = []
    hashes: list[str | None] = []
    task_conditions = (TaskRun.embedding_id.in_(ids), TaskRun.queries_id.in_(ids))
    task_files = (TaskRun.truth_sha256, TaskRun.chosen_sha256, TaskRun.smallest_sha256, TaskRun.cutoff_sha256)
    map_files = (PostProcessing.state_sha256,)
    for kind, table, conditions, files in (
        (job_kinds.CURVE, ZetaCurve, (ZetaCurve.embedding_id.in_(ids), ZetaCurve.source_id.in_(ids)), ()),
        (job_kinds.POSTPROCESS, PostProcessing, (PostProcessing.embedding_id.in_(ids),), map_files),
        (job_kinds.LAYOUT, MapLayout, (MapLayout.embedding_id.in_(ids),), ()),
        (job_kinds.LOOKUP, Lookup, (Lookup.embedding_id.in_(ids),), ()),
        (job_kinds.JUDGE, TaskRun, task_conditions, task_files),
        (job_kinds.ALIGN, Alignment, (Alignment.embedding_id.in_(ids), Alignment.other_id.in_(ids)), ()),
    ):
        deleted = delete(table).where(or_(*conditions)).returning(table.id, table.status, *files)
        for row_id, status, *sha256 in session.execute(deleted):
            jobs += [Job(kind, row_id)] if status in kind.waiting else []
            hashes += sha256
    figure_files = delete(FigureFile).where(FigureFile.embedding_id.in_(ids))
    hashes += session.scalars(figure_files.returning(FigureFile.file_sha256))
    for results in (Measurement, FigureData):
        session.execute(delete(results).where(results.embedding_id.in_(ids)))
    return jobs, hashes


def describe_lost_tasks(context: Context, *conditions: ColumnElement[bool]) -> str:
    """Return a sentence about the tasks that go with the deleted embeddings (``conditions``); empty without tasks."""
    ids = select(Embedding.id).where(*conditions)
    count_query = select(func.count()).where(or_(TaskRun.embedding_id.in_(ids), TaskRun.queries_id.in_(ids)))
    with context.sessions() as session:
        count = session.scalars(count_query).one()
    clause = "that uses these vectors is" if count == 1 else "that use these vectors are"
    return f"{plural(count, 'task')} {clause} deleted too, with ground truth, scores and maps." if count else ""


def create_embedding(
    context: Context,
    vectors: Sequence[Incoming],
    annotations: Incoming | None = None,
    name: str | None = None,
    *,
    commit: bool = False,
) -> Embedding:
    """Store uploaded files and queue their inspection.

    Several vector files form one embedding, with rows in the natural order of the file names. With ``commit``, the
    default array or columns are measured once they are readable. Otherwise the embedding waits as a draft.
    """
    shards = [Incoming(file.stream, base_name(file.filename)) for file in vectors]
    shards.sort(key=lambda file: natural_sort_key(file.filename))
    files = [(FileRole.VECTORS, shard) for shard in shards]
    if annotations is not None:
        files.append((FileRole.ANNOTATIONS, Incoming(annotations.stream, base_name(annotations.filename))))
    limit = context.settings.max_upload_bytes
    with context.ledger.storing() as store:
        uploads: list[Stored] = []
        for _, file in files:
            uploads.append(store(file.stream, limit))
            if sum(upload.size_bytes for upload in uploads) > limit:
                raise TooLargeError(
                    f"The files have more than {limit:,} bytes together, the limit here: upload fewer rows, "
                    "or have the limit raised by whoever runs this server.",
                    "file",
                )
        named_files = [
            NamedFile(context.storage.local_path(upload.sha256), file.filename)
            for upload, (_, file) in zip(uploads, files, strict=True)
        ]
        file_format = common_format(named_files[: len(shards)])
        for annotation_file in named_files[len(shards) :]:
            check_annotations(annotation_file)
        filename = shards[0].filename
        if len(shards) > 1:
            filename = f"{filename[-200:]} and {len(shards) - 1} more"
        with context.ledger.recording(*uploads) as session:
            embedding = Embedding(
                name=clean_name(name, filename),
                filename=filename,
                format=file_format.name,
                commit_when_inspected=commit,
                files=[
                    EmbeddingFile(position=position, role=role, filename=file.filename, file_sha256=upload.sha256)
                    for position, (upload, (role, file)) in enumerate(zip(uploads, files, strict=True))
                ],
            )
            session.add(embedding)
    context.queue.enqueue(Job(job_kinds.INSPECT, embedding.id))
    return get_embedding(context, embedding.id)


def get_embedding(context: Context, embedding_id: str) -> Embedding:
    with context.sessions() as session:
        return find_embedding(session, embedding_id)


def add_mapped_embedding(
    context: Context, source: Embedding, made_by_id: str, title: str, d: int, provenance: dict[str, Any]
) -> Embedding:
    """Queue a new embedding of d dimensions, mapped from an embedding's vectors by a trial or a task."""
    context.require_room((source.n or 0) * d * FLOAT_BYTES)
    embedding = Embedding(
        name=title,
        filename=f"{file_stem(title)}.npy",
        format="npy",
        origin=EmbeddingOrigin.POSTPROCESSED,
        status=EmbeddingStatus.MAKING,
        source_id=source.id,
        made_by_id=made_by_id,
        provenance={"source": source.name, **provenance},
    )
    with context.sessions.begin() as session:
        session.add(embedding)
    context.queue.enqueue(Job(job_kinds.MAKE, embedding.id))
    return get_embedding(context, embedding.id)


def select_embedding(context: Context, embedding_id: str, selection: Selection, *, commit: bool = False) -> Embedding:
    """Select other vectors, names or labels, delete all results, and queue the inspection; ``commit`` also measures."""
    with context.sessions.begin() as session:
        embedding = find_embedding(session, embedding_id)
        require_not_trashed(embedding)
        if embedding.status not in SELECTABLE:
            raise ConflictError(f"{embedding.name} is {embedding.status}: choose from it when a worker has finished.")
        if embedding.inspection is None:
            raise ConflictError(
                f"{embedding.name} could not be read, so there is nothing to choose from. Upload it again."
            )
        selection.check(Inspection.model_validate(embedding.inspection))
        jobs, hashes = drop_results(session, [embedding_id])
        session.expire(embedding, ["measurements", "curves"])
        embedding.n_left_out = embedding.measured_at = None
        embedding.selection = selection.model_dump()
        embedding.commit_when_inspected = commit
        embedding.status = EmbeddingStatus.INSPECTING
        embedding.attempts = 0
        embedding.error = None
    context.queue.cancel(*jobs)
    context.ledger.release(*hashes)
    context.queue.restart(Job(job_kinds.INSPECT, embedding_id))
    return get_embedding(context, embedding_id)


def commit_embedding(context: Context, embedding_id: str, similarity: Similarity | None = None) -> Embedding:
    """Queue the measuring of a draft. ``similarity`` replaces that of its selection, unless it is None."""
    with context.sessions.begin() as session:
        embedding = find_embedding(session, embedding_id)
        require_not_trashed(embedding)
        if embedding.status is not EmbeddingStatus.DRAFT:
            raise ConflictError(f"Only a draft can be measured; this embedding is {embedding.status}.")
        inspection = embedding.inspection or {}
        if inspection.get("n", 1) == inspection.get("n_nonfinite", 0):
            raise InvalidError(NO_FINITE_ROW, "vectors")
        if similarity is not None:
            embedding.selection = {**(embedding.selection or {}), "similarity": similarity.value}
        embedding.status = EmbeddingStatus.MEASURING
        embedding.attempts = 0
    context.queue.ensure_enqueued(Job(job_kinds.MEASURE, embedding_id))
    return get_embedding(context, embedding_id)


def find_embedding(session: Session, embedding_id: str) -> Embedding:
    """Return an embedding with its files, tags, measurements, curves and findings, or raise NotFoundError."""
    loading_options = map(selectinload, (Embedding.measurements, Embedding.curves, Embedding.findings_data))
    embedding = session.scalar(select(Embedding).where(Embedding.id == embedding_id).options(*loading_options))
    if embedding is None:
        raise not_found("embedding", embedding_id)
    return embedding


def require_not_trashed(embedding: Embedding) -> None:
    if embedding.trashed_at is not None:
        raise ConflictError(f"{embedding.name} is in the trash. Restore it first.")


def require_measured(embedding: Embedding, purpose: str) -> None:
    """Raise ConflictError unless an embedding is measured and outside the trash. The error names the ``purpose``."""
    require_not_trashed(embedding)
    require_ready(embedding, purpose)


def require_ready(embedding: Embedding, purpose: str) -> None:
    """Raise ConflictError unless an embedding is measured. It may be in the trash. The error names the ``purpose``."""
    if embedding.status is not EmbeddingStatus.READY:
        raise ConflictError(f"{embedding.name} is {embedding.status}; {purpose} needs a measured embedding.")


def get_figure_data(context: Context, embedding_id: str, *slugs: str) -> dict[str, dict[str, Any]]:
    rows = select(FigureData).where(FigureData.embedding_id == embedding_id, FigureData.slug.in_(slugs))
    return {row.slug: row.data for row in context.scalars(rows)}


def get_stored_figure(context: Context, embedding_id: str, slug: str) -> dict[str, Any]:
    """Return the data of one figure. If there are none, raise a NotFoundError that says why."""
    data = get_figure_data(context, embedding_id, slug)
    if slug not in data:
        embedding = get_embedding(context, embedding_id)
        if embedding.status is not EmbeddingStatus.READY:
            raise NotFoundError(
                f"There is no {slug!r} of {embedding.name}, which is {embedding.status}. It is computed with the "
                "measures."
            )
        raise NotFoundError(
            f"There is no {slug!r} of {embedding.name}: another version of Isoscope measured it. Choose again "
            f"to measure it with this version."
        )
    return data[slug]


def list_stored_figures(
    context: Context, embedding_id: str, slugs: Collection[str]
) -> dict[str, dict[str, Any] | None]:
    """Return the slugs of all stored figures with their data, which are loaded only for ``slugs`` and else None."""
    data = case((FigureData.slug.in_(slugs), FigureData.data), else_=null())
    rows = select(FigureData.slug, data).where(FigureData.embedding_id == embedding_id)
    with context.sessions() as session:
        return dict(session.execute(rows).all())
