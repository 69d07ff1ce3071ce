"""Jobs that rows wait for: what workers enqueue where a crash came between a row and its job."""

from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import (
    UNFINISHED,
    UNFINISHED_ENCODING,
    UNFINISHED_IMPORT,
    DryRun,
    Embedding,
    EmbeddingStatus,
    Encoding,
    Import,
    ImportStatus,
    Lookup,
    PostProcessing,
    ResultStatus,
    Run,
    ZetaCurve,
)
from app.db.models.runs import IN_TURN
from app.db.session import Sessions
from app.queue import Job, JobKind


def wanted(sessions: Sessions) -> list[Job]:
    """The jobs that rows wait for, each kind in its turn."""
    with sessions() as session:
        return [
            *_jobs(session, JobKind.INSPECT, Embedding, EmbeddingStatus.INSPECTING),
            *_jobs(session, JobKind.MEASURE, Embedding, EmbeddingStatus.MEASURING),
            *_jobs(session, JobKind.CURVE, ZetaCurve, ResultStatus.QUEUED),
            *_jobs(session, JobKind.POSTPROCESS, PostProcessing, ResultStatus.QUEUED),
            *_jobs(session, JobKind.LOOKUP, Lookup, ResultStatus.QUEUED),
            *_jobs(session, JobKind.MAKE, Embedding, EmbeddingStatus.MAKING),
            *_jobs(session, JobKind.ENCODE, Encoding, *UNFINISHED_ENCODING),
            *_jobs(session, JobKind.DRY_RUN, DryRun, ResultStatus.QUEUED),
            *_jobs(session, JobKind.IMPORT, Import, *UNFINISHED_IMPORT),
            *_jobs(session, JobKind.DISCARD, Import, ImportStatus.REMOVING),
            *_runs(session),
        ]


def _jobs(session: Session, kind: JobKind, table: Any, *states: StrEnum) -> list[Job]:
    ids = session.scalars(select(table.id).where(table.status.in_(states)).order_by(table.created_at))
    return [Job(kind, row_id) for row_id in ids]


def _runs(session: Session) -> list[Job]:
    unfinished = Run.status.in_(UNFINISHED)
    rows = session.execute(select(Run.id, Run.priority).where(unfinished).order_by(*IN_TURN))
    return [Job(JobKind.FINETUNE, row_id, priority) for row_id, priority in rows]
