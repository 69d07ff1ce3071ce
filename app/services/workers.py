"""Workers: which there are, and which of them still live."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import func, select

from app.context import Context
from app.db.job_kinds import JobKind
from app.db.models import Run, RunStatus, Worker
from app.db.session import Sessions
from app.db.types import utcnow
from app.queue import Job

LOST_AFTER = timedelta(seconds=60)


class WorkerJob(NamedTuple):
    """What a worker works on, with the memory that its processes hold now and at most so far, where it is known."""

    kind: JobKind
    row_id: str
    since: datetime
    memory_bytes: int | None
    peak_bytes: int | None


class WorkerState(NamedTuple):
    """A worker as a page shows it."""

    slot: str
    device: str
    alive: bool
    heartbeat_at: datetime
    started_at: datetime
    memory_bytes: int | None
    jobs: list[WorkerJob]


def count_alive(sessions: Sessions) -> int:
    """How many workers have beaten of late."""
    alive = Worker.heartbeat_at > utcnow() - LOST_AFTER
    with sessions() as session:
        return session.scalars(select(func.count()).select_from(Worker).where(alive)).one()


def list_workers(context: Context) -> list[WorkerState]:
    """All workers that ever beat, the living first."""
    with context.sessions() as session:
        rows = session.scalars(select(Worker).order_by(Worker.slot)).all()
    now = utcnow()
    states = [
        WorkerState(
            row.slot,
            row.device,
            now - row.heartbeat_at < LOST_AFTER,
            row.heartbeat_at,
            row.started_at,
            row.memory_bytes,
            [_job(one) for one in row.jobs or ()],
        )
        for row in rows
    ]
    return sorted(states, key=lambda state: not state.alive)


def _job(told: Mapping[str, Any]) -> WorkerJob:
    job = Job.parse(told["id"])
    since = datetime.fromisoformat(told["since"])
    return WorkerJob(job.kind, job.row_id, since, told["memory_bytes"], told["peak_bytes"])


def has_gpu(workers: Iterable[WorkerState]) -> bool:
    """Whether one that lives has a GPU that trains in half precision."""
    return any(worker.alive and worker.device.startswith("cuda") for worker in workers)


def worker_lost(run: Run, workers: list[WorkerState]) -> bool:
    """Whether a run is called running only because nobody is left to say otherwise."""
    alive = {worker.slot for worker in workers if worker.alive}
    return run.status is RunStatus.RUNNING and run.worker not in alive
