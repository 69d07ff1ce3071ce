"""The page of the queue: workers, and running and waiting jobs."""

from fastapi import APIRouter, Request, Response

from app.context import PAGE_ROWS, offset_of, read_page
from app.db.job_kinds import KINDS
from app.training import queue_status
from app.web.dependencies import ContextDep, PageNumber
from app.web.responses import render

router = APIRouter()


@router.get("/queue")
def show_queue(request: Request, context: ContextDep, page: PageNumber = 1) -> Response:
    workers, running = queue_status.list_workers(context), queue_status.list_running_runs(context)
    waiting, page, pages = read_page(lambda offset: queue_status.list_waiting_runs(context, PAGE_ROWS, offset), page)
    imports, embeddings = queue_status.list_unfinished_uploads(context)
    # ``doing`` comes from the runs' rows, which change sooner than a worker's next heartbeat.
    template_values = {
        "workers": workers,
        "job_kinds": KINDS,
        "doing": {worker.slot: [run for run in running if run.worker == worker.slot] for worker in workers},
        "running": running,
        "lost": {run.id for run in running if queue_status.has_lost_worker(run, workers)},
        "waiting": waiting,
        "page": page,
        "pages": pages,
        "first": offset_of(page) + 1,
        "experiments": queue_status.list_unfinished_experiments(context),
        "encodings": queue_status.list_unfinished_encodings(context),
        "imports": imports,
        "embeddings": embeddings,
    }
    return render(request, "training/queue.html", template_values)


@router.get("/queue/status")
def show_status(request: Request, context: ContextDep) -> Response:
    """Show the status in the header of every page, which polls it."""
    return render(request, "training/queue_status.html", {"queue": queue_status.summarize_queue(context)})
