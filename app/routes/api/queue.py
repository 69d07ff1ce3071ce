"""The queue over the API."""

from fastapi import APIRouter

from app.dependencies import ContextDep
from app.routes.api.paging import Limit, Offset
from app.routes.api.schemas.queue import Changed, ExperimentQueued, ImportQueued, QueuedRun, QueueOut, WorkerOut
from app.services import pausing, waiting
from app.services.workers import list_workers

router = APIRouter(prefix="/queue", tags=["queue"])


@router.get("")
def show_queue(context: ContextDep, limit: Limit = 50, offset: Offset = 0) -> QueueOut:
    """What works where, and what waits in the order in which it will be taken."""
    found = waiting.list_waiting(context, limit, offset)
    return QueueOut(
        workers=[WorkerOut.model_validate(one) for one in list_workers(context)],
        running=[QueuedRun.model_validate(one) for one in waiting.list_running(context)],
        waiting=[QueuedRun.model_validate(one) for one in found.runs],
        waiting_total=found.total,
        experiments=[ExperimentQueued.model_validate(one) for one in waiting.list_experiments_at_work(context)],
        imports=[ImportQueued.model_validate(one) for one in waiting.list_imports_at_work(context)],
    )


@router.post("/pause")
def pause_all(context: ContextDep) -> Changed:
    """Put every run that waits or runs aside."""
    return Changed(runs=pausing.pause_all(context))


@router.post("/resume")
def resume_all(context: ContextDep) -> Changed:
    """Have every paused run go on, when its turn comes."""
    return Changed(runs=pausing.resume_all(context))
