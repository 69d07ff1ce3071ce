"""The queue over the API: workers and unfinished jobs."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AliasPath, BaseModel, BeforeValidator, Field

from app.db.models import EmbeddingStatus, EncodingStatus, ImportStatus, Phase, RunStatus
from app.db.models.runs import DeviceLoad
from app.training import queue_status, queue_verbs
from app.training.queue_status import ExperimentQueued, list_workers
from app.training.queue_verbs import FIRST_PRIORITY, LAST_PRIORITY, QueueMove
from app.web.dependencies import ContextDep, Limit, Offset, Row
from isotropy.catalog import Regularizer


class Move(BaseModel):
    """Where to move a queued run."""

    to: QueueMove


class MoveToEnd(BaseModel):
    """Where to move the queued runs of an experiment."""

    to: Literal["first", "last"]


class PriorityIn(BaseModel):
    """The priority of waiting runs. Lower numbers run first."""

    priority: Annotated[int, Field(ge=FIRST_PRIORITY, le=LAST_PRIORITY)]


class JobOut(Row):
    """A worker's current job, with the current and peak memory of its processes if known."""

    kind: str
    row_id: str
    since: datetime
    memory_bytes: int | None
    peak_bytes: int | None


class WorkerOut(Row):
    """A worker. It sends a heartbeat every ten seconds and counts as lost after a minute without one."""

    slot: str
    device: str
    alive: bool
    heartbeat_at: datetime
    started_at: datetime
    memory_bytes: int | None
    load: DeviceLoad | None
    jobs: Annotated[list[JobOut], BeforeValidator(lambda jobs: jobs or [])]


class RunState(Row):
    """A run with its status and progress."""

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


class ImportQueued(Row):
    """An import that is queued, written or removed, with its number of written rows."""

    id: str
    filename: str
    status: ImportStatus
    done: int
    total: int | None
    created_at: datetime


class EncodingQueued(Row):
    """A queued or running encoding."""

    id: str
    name: str
    model: Annotated[str, Field(validation_alias=AliasPath("config", "model"))]
    status: EncodingStatus
    queued_at: datetime


class EmbeddingQueued(Row):
    """An embedding that is being made, read or measured, or a ready one that is being judged."""

    id: str
    name: str
    status: EmbeddingStatus
    created_at: datetime


class QueueOut(BaseModel):
    """The workers, the running and waiting runs (next first), and all other unfinished jobs."""

    workers: list[WorkerOut]
    running: list[QueuedRun]
    waiting: list[QueuedRun]
    """At most `limit` runs, from `offset`."""
    waiting_total: int
    experiments: list[ExperimentQueued]
    imports: list[ImportQueued]
    encodings: list[EncodingQueued]
    embeddings: list[EmbeddingQueued]


class Changed(BaseModel):
    """How many runs were changed."""

    runs: int


router = APIRouter(prefix="/queue", tags=["queue"])


@router.get("")
def show_queue(context: ContextDep, limit: Limit = 50, offset: Offset = 0) -> QueueOut:
    """Workers with their jobs, and waiting runs in the order of the queue."""
    waiting = queue_status.list_waiting_runs(context, limit, offset)
    imports, embeddings = queue_status.list_unfinished_uploads(context)
    return QueueOut(
        workers=[WorkerOut.model_validate(row) for row in list_workers(context)],
        running=[QueuedRun.model_validate(row) for row in queue_status.list_running_runs(context)],
        waiting=[QueuedRun.model_validate(row) for row in waiting.runs],
        waiting_total=waiting.total,
        experiments=queue_status.list_unfinished_experiments(context),
        imports=[ImportQueued.model_validate(row) for row in imports],
        encodings=[EncodingQueued.model_validate(row) for row in queue_status.list_unfinished_encodings(context)],
        embeddings=[EmbeddingQueued.model_validate(row) for row in embeddings],
    )


@router.post("/pause")
def pause_all(context: ContextDep) -> Changed:
    """Pause all queued and running runs."""
    return Changed(runs=queue_verbs.pause_all(context))


@router.post("/resume")
def resume_all(context: ContextDep) -> Changed:
    """Queue all paused runs again."""
    return Changed(runs=queue_verbs.resume_all(context))
