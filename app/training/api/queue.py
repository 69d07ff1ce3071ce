"""The queue over the API: what waits for workers, and which workers there are."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AliasPath, BaseModel, Field

from app.db.models import EmbeddingStatus, EncodingStatus, ImportStatus, Phase, RunStatus
from app.training import queue_status, queue_verbs
from app.training.queue_status import list_workers
from app.training.queue_verbs import FIRST_PRIORITY, LAST_PRIORITY, QueueMove
from app.web.dependencies import ContextDep, Limit, Offset, Row
from isotropy.catalog import Regularizer


class Move(BaseModel):
    """Where a queued run goes among those that wait."""

    to: QueueMove


class MoveToEnd(BaseModel):
    """Where the queued runs of an experiment go among those that wait."""

    to: Literal["first", "last"]


class PriorityIn(BaseModel):
    """The number by which waiting runs are ordered."""

    priority: Annotated[int, Field(ge=FIRST_PRIORITY, le=LAST_PRIORITY)]


class JobOut(Row):
    """What a worker works on, with the memory that its processes hold now and at most so far, where it is known."""

    kind: Annotated[str, Field(validation_alias=AliasPath("kind", "name"))]
    row_id: str
    since: datetime
    memory_bytes: int | None
    peak_bytes: int | None


class WorkerOut(Row):
    """A worker that beats every ten seconds, and counts as lost when it has not for a minute."""

    slot: str
    device: str
    alive: bool
    heartbeat_at: datetime
    started_at: datetime
    memory_bytes: int | None
    jobs: list[JobOut]


class RunState(Row):
    """Which run it is, and how far."""

    id: str
    regularizer: Regularizer
    lam: float
    zeta: float
    seed: int
    status: RunStatus
    phase: Phase | None
    phase_done: int
    phase_total: int | None
    worker: str | None
    priority: int
    queued_at: datetime
    started_at: datetime | None


class QueuedRun(RunState):
    """A run that is training or waiting."""

    experiment_id: str
    experiment_name: str
    model: str


class ExperimentQueued(Row):
    """How many runs of an experiment work, wait or are paused."""

    id: str
    name: str
    running: int
    queued: int
    paused: int


class ImportQueued(Row):
    """An import that waits, is written, or is removed again, and how many of its rows are written."""

    id: str
    filename: str
    status: ImportStatus
    done: int
    total: int | None
    created_at: datetime


class EncodingQueued(Row):
    """An encoding that waits for a worker, or is at one."""

    id: str
    name: str
    model: Annotated[str, Field(validation_alias=AliasPath("config", "model"))]
    status: EncodingStatus
    queued_at: datetime


class EmbeddingQueued(Row):
    """An embedding that is made, read or measured."""

    id: str
    name: str
    status: EmbeddingStatus
    created_at: datetime


class QueueOut(BaseModel):
    """The workers, what runs work or wait, the next one first, and all else that has not ended."""

    workers: list[WorkerOut]
    running: list[QueuedRun]
    waiting: list[QueuedRun]
    """So many of them as were asked for."""
    waiting_total: int
    experiments: list[ExperimentQueued]
    imports: list[ImportQueued]
    encodings: list[EncodingQueued]
    embeddings: list[EmbeddingQueued]


class Changed(BaseModel):
    """How many runs it made a difference to."""

    runs: int


router = APIRouter(prefix="/queue", tags=["queue"])


@router.get("")
def show_queue(context: ContextDep, limit: Limit = 50, offset: Offset = 0) -> QueueOut:
    """What works where, and what waits in the order in which it will be taken."""
    waiting = queue_status.list_waiting(context, limit, offset)
    imports, embeddings = queue_status.list_uploads_at_work(context)
    return QueueOut(
        workers=[WorkerOut.model_validate(row) for row in list_workers(context)],
        running=[QueuedRun.model_validate(row) for row in queue_status.list_running(context)],
        waiting=[QueuedRun.model_validate(row) for row in waiting.runs],
        waiting_total=waiting.total,
        experiments=[ExperimentQueued.model_validate(row) for row in queue_status.list_experiments_at_work(context)],
        imports=[ImportQueued.model_validate(row) for row in imports],
        encodings=[EncodingQueued.model_validate(row) for row in queue_status.list_encodings_at_work(context)],
        embeddings=[EmbeddingQueued.model_validate(row) for row in embeddings],
    )


@router.post("/pause")
def pause_all(context: ContextDep) -> Changed:
    """Put every run that waits or runs aside."""
    return Changed(runs=queue_verbs.pause_all(context))


@router.post("/resume")
def resume_all(context: ContextDep) -> Changed:
    """Have every paused run go on, when its turn comes."""
    return Changed(runs=queue_verbs.resume_all(context))
