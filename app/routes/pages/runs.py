"""One run: how it was set up, how it trains, what came out."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import FileResponse

from app.db.models import Run
from app.dependencies import ContextDep
from app.figures import learning
from app.figures.figure import Figure
from app.figures.scatter import METRIC_TITLES
from app.routes.downloads import file_of
from app.routes.pages.answers import FileKind, figure_file, see
from app.services.files import get_model
from app.services.runs import cancel_run, get_run
from app.services.workers import list_workers, worker_lost
from app.templating import templates

router = APIRouter(prefix="/runs/{run_id}")


@router.get("")
def show_run(request: Request, context: ContextDep, run_id: str) -> Response:
    """The run and its curves; the page updates itself until the run has ended."""
    run = get_run(context, run_id)
    shown = {
        "run": run,
        "metric": METRIC_TITLES[run.config["metric"]],
        "figures": _figures(run),
        "lost": worker_lost(run, list_workers(context)),
    }
    return templates.TemplateResponse(request, "run.html", shown)


@router.post("/cancel")
def stop_run(context: ContextDep, run_id: str, back: Annotated[str, Form()] = "") -> Response:
    """Cancel it, and go back to the page the button was on."""
    run = cancel_run(context, run_id)
    pages = {"queue": "/queue", "experiment": f"/experiments/{run.experiment_id}"}
    return see(pages.get(back, f"/runs/{run_id}"))


@router.get("/model.zip")
def download_model(context: ContextDep, run_id: str) -> FileResponse:
    """The trained model, where it was kept."""
    return file_of(get_model(context, run_id))


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, run_id: str, slug: str, kind: FileKind) -> Response:
    """A figure of the run."""
    return figure_file(_figures(get_run(context, run_id)), slug, kind)


def _figures(run: Run) -> list[Figure]:
    return [learning.loss(run), learning.penalty(run), learning.layers(run)]
