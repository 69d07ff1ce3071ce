"""The queue: who works, on what, and what waits."""

from fastapi import APIRouter, Request, Response

from app.db.models import UNFINISHED_ENCODING, EmbeddingStatus, RunStatus
from app.dependencies import ContextDep
from app.services.embeddings import list_embeddings
from app.services.encodings import list_encodings
from app.services.experiments import list_experiments
from app.services.workers import list_workers, worker_lost
from app.templating import templates

router = APIRouter()

BUSY = (EmbeddingStatus.MAKING, EmbeddingStatus.INSPECTING, EmbeddingStatus.MEASURING)


@router.get("/queue")
def show_queue(request: Request, context: ContextDep) -> Response:
    """Workers, and all jobs that run or wait, in the order in which they will be taken."""
    workers = list_workers(context)
    pairs = [(experiment, run) for experiment in list_experiments(context) for run in experiment.runs]
    pairs = [(experiment, run) for experiment, run in pairs if not run.status.final]
    pairs.sort(key=lambda pair: (pair[1].status is RunStatus.QUEUED, pair[1].queued_at, pair[1].position))
    shown = {
        "workers": workers,
        "runs": pairs,
        "lost": {run.id for _, run in pairs if worker_lost(run, workers)},
        "encodings": [one for one in reversed(list_encodings(context)) if one.status in UNFINISHED_ENCODING],
        "embeddings": [one for one in reversed(list_embeddings(context)) if one.status in BUSY],
    }
    return templates.TemplateResponse(request, "queue.html", shown)
