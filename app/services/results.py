"""Results: made again where one failed, gone with their embedding or when another part of it is chosen."""

from collections.abc import Collection

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from app.context import Context
from app.db import job_kinds
from app.db.models import (
    Embedding,
    EmbeddingFile,
    FigureData,
    Lookup,
    Measurement,
    PostProcessing,
    ResultStatus,
    ZetaCurve,
)
from app.queue import Job

# The job that works on an embedding in such a state.
WORKING = {status: kind for kind in job_kinds.KINDS.values() if kind.table is Embedding for status in kind.waiting}


def repeat_failed(context: Context, table: type[Lookup] | type[PostProcessing] | type[ZetaCurve], job: Job) -> None:
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
    for results in (Measurement, FigureData):
        session.execute(delete(results).where(results.embedding_id.in_(ids)))
    return jobs, hashes
