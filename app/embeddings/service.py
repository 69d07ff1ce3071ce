"""Embeddings: upload, choose what is the matrix, measure; drop or repeat their results."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, null, or_, select, update
from sqlalchemy.orm import Session, selectinload

from app.context import Context, missing
from app.core.names import base_name, clean_name, file_stem, natural_order, together
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
    Measurement,
    PostProcessing,
    ResultStatus,
    TaskRun,
    ZetaCurve,
)
from app.storage import Incoming, Stored
from isoscope.core.errors import ConflictError, NotFoundError, TooLargeError
from isoscope.core.formatting import plural
from isoscope.files.matrix import Inspection
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, check_annotations, common_format
from isotropy.catalog import Similarity

# The job that works on an embedding in such a state.
WORKING = {status: kind for kind in job_kinds.KINDS.values() if kind.table is Embedding for status in kind.waiting}


Result = Alignment | Lookup | PostProcessing | ZetaCurve


def repeat_failed(context: Context, table: type[Result], job: Job) -> None:
    """Have a failed result made again by its job, unless somebody asked for that at this moment."""
    failed = update(table).where(table.id == job.row_id, table.status == ResultStatus.FAILED)
    queued = failed.values(status=ResultStatus.QUEUED, error=None, attempts=0)
    with context.sessions.begin() as session:
        repeated = session.scalar(queued.returning(table.id))
    if repeated is not None:
        context.queue.restart(job)


def drop_embeddings(session: Session, ids: Collection[str]) -> tuple[list[Job], list[str | None]]:
    """Delete embeddings in any state; return the jobs that may be at them, and hashes of files they leave.

    As many statements for several as for one.
    """
    jobs, hashes = drop_results(session, ids)
    hashes += session.scalars(select(EmbeddingFile.file_sha256).where(EmbeddingFile.embedding_id.in_(ids)))
    gone = delete(Embedding).where(Embedding.id.in_(ids)).returning(Embedding.id, Embedding.status)
    for row_id, status in session.execute(gone):
        jobs += [Job(WORKING[status], row_id)] if status in WORKING else []
    return jobs, hashes


def drop_results(session: Session, ids: Collection[str]) -> tuple[list[Job], list[str | None]]:
    """Delete all that was made of embeddings; return the jobs that may be at it, and hashes of files it leaves."""
    takes_part = or_(ZetaCurve.embedding_id.in_(ids), ZetaCurve.source_id.in_(ids))
    curves = delete(ZetaCurve).where(takes_part).returning(ZetaCurve.id, ZetaCurve.status)
    processed = delete(PostProcessing).where(PostProcessing.embedding_id.in_(ids))
    states = processed.returning(PostProcessing.id, PostProcessing.status, PostProcessing.state_sha256)
    jobs: list[Job] = []
    hashes: list[str | None] = []
    for row_id, status in session.execute(curves):
        jobs += [Job(job_kinds.CURVE, row_id)] if status is ResultStatus.QUEUED else []
    for row_id, status, sha256 in session.execute(states):
        jobs += [Job(job_kinds.POSTPROCESS, row_id)] if status is ResultStatus.QUEUED else []
        hashes.append(sha256)
    looked_up = delete(Lookup).where(Lookup.embedding_id.in_(ids)).returning(Lookup.id, Lookup.status)
    for row_id, status in session.execute(looked_up):
        jobs += [Job(job_kinds.LOOKUP, row_id)] if status is ResultStatus.QUEUED else []
    judged = delete(TaskRun).where(or_(TaskRun.embedding_id.in_(ids), TaskRun.queries_id.in_(ids)))
    files = TaskRun.truth_sha256, TaskRun.chosen_sha256, TaskRun.smallest_sha256
    for row_id, way, *kept in session.execute(judged.returning(TaskRun.id, TaskRun.status, *files)):
        jobs += [Job(job_kinds.JUDGE, row_id)] if way in job_kinds.JUDGE.waiting else []
        hashes += kept
    aligned = delete(Alignment).where(or_(Alignment.embedding_id.in_(ids), Alignment.other_id.in_(ids)))
    for row_id, status in session.execute(aligned.returning(Alignment.id, Alignment.status)):
        jobs += [Job(job_kinds.ALIGN, row_id)] if status is ResultStatus.QUEUED else []
    shown = delete(FigureFile).where(FigureFile.embedding_id.in_(ids))
    hashes += session.scalars(shown.returning(FigureFile.file_sha256))
    for results in (Measurement, FigureData):
        session.execute(delete(results).where(results.embedding_id.in_(ids)))
    return jobs, hashes


def tasks_lost(context: Context, *conditions: ColumnElement[bool]) -> str:
    """Say how many tasks go with the results of embeddings that meet the conditions; nothing where none does."""
    ids = select(Embedding.id).where(*conditions)
    using = select(func.count()).where(or_(TaskRun.embedding_id.in_(ids), TaskRun.queries_id.in_(ids)))
    with context.sessions() as session:
        count = session.scalars(using).one()
    uses = "that uses these vectors goes" if count == 1 else "that use these vectors go"
    return f"{plural(count, 'task')} {uses} too, with ground truth, scores and maps." if count else ""


FINISHED = (EmbeddingStatus.READY, EmbeddingStatus.FAILED)
CHOOSABLE = (EmbeddingStatus.DRAFT, *FINISHED)


def create_embedding(
    context: Context,
    vectors: Sequence[Incoming],
    annotations: Incoming | None = None,
    name: str | None = None,
    *,
    commit: bool = False,
) -> Embedding:
    """Keep uploaded files and have a worker look into them.

    Several files of vectors are one embedding, their rows in the natural order of the names. With ``commit`` it is
    measured as soon as it is found readable, by the default choice of array or columns; otherwise it waits as a draft
    for the user to look at it.
    """
    shards = sorted(
        (Incoming(one.stream, base_name(one.filename)) for one in vectors), key=lambda one: natural_order(one.filename)
    )
    given = [(FileRole.VECTORS, one) for one in shards]
    if annotations is not None:
        given.append((FileRole.ANNOTATIONS, Incoming(annotations.stream, base_name(annotations.filename))))
    with context.ledger.arriving() as store:
        stored: list[Stored] = []
        for _, one in given:
            stored.append(store(one.stream, context.settings.max_upload_bytes))
            _require_room(context, stored)
        named = [
            NamedFile(context.storage.local(kept.sha256), one.filename)
            for kept, (_, one) in zip(stored, given, strict=True)
        ]
        kind = common_format(named[: len(shards)])
        for file in named[len(shards) :]:
            check_annotations(file)
        filename = together([one.filename for one in shards])
        with context.ledger.recording(*stored) as session:
            embedding = Embedding(
                name=clean_name(name, filename),
                filename=filename,
                format=kind.name,
                commit_when_inspected=commit,
                files=[
                    EmbeddingFile(position=position, role=role, filename=one.filename, file_sha256=kept.sha256)
                    for position, (kept, (role, one)) in enumerate(zip(stored, given, strict=True))
                ],
            )
            session.add(embedding)
    context.queue.enqueue(Job(job_kinds.INSPECT, embedding.id))
    return get_embedding(context, embedding.id)


def _require_room(context: Context, stored: Sequence[Stored]) -> None:
    """Refuse files that are together larger than one may be."""
    limit = context.settings.max_upload_bytes
    if sum(one.size_bytes for one in stored) > limit:
        raise TooLargeError(
            f"The files have more than {limit:,} bytes together, the limit here: upload fewer rows, "
            "or have the limit raised by whoever runs this server.",
            "file",
        )


def get_embedding(context: Context, embedding_id: str) -> Embedding:
    """One embedding with its files, measurements and curves."""
    with context.sessions() as session:
        return find_embedding(session, embedding_id)


def add_mapped(
    context: Context, source: Embedding, made_by_id: str, title: str, d: int, provenance: dict[str, Any]
) -> Embedding:
    """Have the vectors of an embedding mapped to d dimensions, by a trial or a task, as an embedding of its own."""
    context.require_room((source.n or 0) * d * FLOAT_BYTES)
    made = Embedding(
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
        session.add(made)
    context.queue.enqueue(Job(job_kinds.MAKE, made.id))
    return get_embedding(context, made.id)


def select_embedding(context: Context, embedding_id: str, selection: Selection, *, commit: bool = False) -> Embedding:
    """Choose other vectors, names or labels, and have the worker look again; ``commit`` measures then.

    Delete what rests on the former choice: measurements, curves, post-processings, and the tasks of these vectors.
    """
    with context.sessions.begin() as session:
        embedding = find_embedding(session, embedding_id)
        require_in_use(embedding)
        if embedding.status not in CHOOSABLE:
            raise ConflictError(f"{embedding.name} is {embedding.status}: choose from it when a worker has finished.")
        if embedding.inspection is None:
            raise ConflictError(
                f"{embedding.name} could not be read, so there is nothing to choose from. Upload it again."
            )
        Inspection.model_validate(embedding.inspection).check(selection)
        jobs, hashes = drop_results(session, [embedding_id])
        session.expire(embedding, ["measurements", "curves"])
        embedding.n_left_out = embedding.measured_at = None
        embedding.selection = selection.model_dump()
        embedding.commit_when_inspected = commit
        embedding.status = EmbeddingStatus.INSPECTING
        embedding.attempts = 0
        embedding.error = None
    for job in jobs:
        context.queue.cancel(job)
    context.ledger.release(*hashes)
    context.queue.restart(Job(job_kinds.INSPECT, embedding_id))
    return get_embedding(context, embedding_id)


def commit_embedding(context: Context, embedding_id: str, similarity: Similarity | None = None) -> Embedding:
    """Measure a draft as it is shown, by another similarity where one is given."""
    with context.sessions.begin() as session:
        embedding = find_embedding(session, embedding_id)
        require_in_use(embedding)
        if embedding.status is not EmbeddingStatus.DRAFT:
            raise ConflictError(f"Only a draft can be measured; this embedding is {embedding.status}.")
        if similarity is not None:
            embedding.selection = {**(embedding.selection or {}), "similarity": similarity.value}
        embedding.status = EmbeddingStatus.MEASURING
        embedding.attempts = 0
    context.queue.ensure(Job(job_kinds.MEASURE, embedding_id))
    return get_embedding(context, embedding_id)


def find_embedding(session: Session, embedding_id: str) -> Embedding:
    """One embedding in a transaction, with its files, tags, measurements, curves and findings."""
    wanted = select(Embedding).where(Embedding.id == embedding_id)
    read = Embedding.measurements, Embedding.curves, Embedding.found
    loaded = wanted.options(*(selectinload(one) for one in read))
    if (embedding := session.scalar(loaded)) is None:
        raise missing("embedding", embedding_id)
    return embedding


def require_in_use(embedding: Embedding) -> None:
    """Refuse what cannot be done with an embedding while it is in the trash."""
    if embedding.trashed_at is not None:
        raise ConflictError(f"{embedding.name} is in the trash. Restore it first.")


def require_measured(embedding: Embedding, for_what: str) -> None:
    """Refuse what is done only with measured embeddings that are in use."""
    require_in_use(embedding)
    require_ready(embedding, for_what)


def require_ready(embedding: Embedding, for_what: str) -> None:
    """Refuse what needs measurements, which an embedding keeps in the trash."""
    if embedding.status is not EmbeddingStatus.READY:
        raise ConflictError(f"{embedding.name} is {embedding.status}; {for_what} needs a measured embedding.")


def get_figure_data(context: Context, embedding_id: str, *slugs: str) -> dict[str, dict[str, Any]]:
    """What the figures of an embedding's report show beside its measurements, by slug; all, or of ``slugs``."""
    wanted = select(FigureData).where(FigureData.embedding_id == embedding_id)
    if slugs:
        wanted = wanted.where(FigureData.slug.in_(slugs))
    with context.sessions() as session:
        return {one.slug: one.data for one in session.scalars(wanted)}


def get_stored_figure(context: Context, embedding_id: str, slug: str) -> dict[str, Any]:
    """What one figure of an embedding shows beside its measurements."""
    data = get_figure_data(context, embedding_id, slug)
    if slug not in data:
        embedding = get_embedding(context, embedding_id)
        if embedding.status is not EmbeddingStatus.READY:
            raise NotFoundError(
                f"There is no {slug!r} of {embedding.name}, which is {embedding.status}: it comes with the measures."
            )
        needs = "its rows have no names, or " if slug == "neighbours" else ""
        raise NotFoundError(
            f"There is no {slug!r} of {embedding.name}: {needs}another version of Isoscope measured it. Choose again "
            f"to measure it with this version."
        )
    return data[slug]


def get_figures_stored(context: Context, embedding_id: str, read: Collection[str]) -> dict[str, dict[str, Any] | None]:
    """Every figure of which an embedding has data, in one query: the data of those to be ``read``, None of others."""
    data = case((FigureData.slug.in_(read), FigureData.data), else_=null())
    wanted = select(FigureData.slug, data).where(FigureData.embedding_id == embedding_id)
    with context.sessions() as session:
        rows = session.execute(wanted).all()
    return {row[0]: row[1] for row in rows}


def get_figure_slugs(context: Context, embedding_id: str) -> set[str]:
    """Of which figures an embedding has data, without reading these."""
    with context.sessions() as session:
        return set(session.scalars(select(FigureData.slug).where(FigureData.embedding_id == embedding_id)))
