"""An embedding's going, and that of what was made of it, which also goes when another part of its files is chosen."""

from sqlalchemy import ColumnElement, delete, or_
from sqlalchemy.orm import Session

from app.db.models import (
    Embedding,
    EmbeddingStatus,
    FigureData,
    Measurement,
    PostProcessing,
    ResultStatus,
    ZetaCurve,
)
from app.queue import Job, JobKind

# The job that works on an embedding in such a state.
WORKING = {
    EmbeddingStatus.MAKING: JobKind.MAKE,
    EmbeddingStatus.INSPECTING: JobKind.INSPECT,
    EmbeddingStatus.MEASURING: JobKind.MEASURE,
}


def drop_embedding(session: Session, embedding: Embedding) -> tuple[list[Job], list[str | None]]:
    """Delete an embedding in any state; return the jobs that may be at it, and hashes of files it leaves."""
    jobs, hashes = drop_results(session, embedding)
    if embedding.status in WORKING:
        jobs.append(Job(WORKING[embedding.status], embedding.id))
    hashes += [file.file_sha256 for file in embedding.files]
    session.delete(embedding)
    return jobs, hashes


def drop_results(session: Session, embedding: Embedding) -> tuple[list[Job], list[str | None]]:
    """Delete all that was made of an embedding; return the jobs that may be at it, and hashes of files it leaves."""
    curves = delete(ZetaCurve).where(takes_part(embedding.id)).returning(ZetaCurve.id, ZetaCurve.status)
    processed = delete(PostProcessing).where(PostProcessing.embedding_id == embedding.id)
    states = processed.returning(PostProcessing.id, PostProcessing.status, PostProcessing.state_sha256)
    jobs: list[Job] = []
    hashes: list[str | None] = []
    for row_id, status in session.execute(curves):
        jobs += [Job(JobKind.CURVE, row_id)] if status is ResultStatus.QUEUED else []
    for row_id, status, sha256 in session.execute(states):
        jobs += [Job(JobKind.POSTPROCESS, row_id)] if status is ResultStatus.QUEUED else []
        hashes.append(sha256)
    for results in (Measurement, FigureData):
        session.execute(delete(results).where(results.embedding_id == embedding.id))
    session.expire(embedding, ["measurements", "curves"])
    embedding.n_left_out = embedding.measured_at = None
    return jobs, hashes


def takes_part(embedding_id: str) -> ColumnElement[bool]:
    """Whether a curve is of an embedding, or of another towards it."""
    return or_(ZetaCurve.embedding_id == embedding_id, ZetaCurve.source_id == embedding_id)
