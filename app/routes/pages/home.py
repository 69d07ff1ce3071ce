"""The first page: what Isoscope is, what to do, and what is going on."""

from fastapi import APIRouter, Request, Response

from app.dependencies import ContextDep
from app.figures.scatter import isotropy_performance
from app.results.sweep import Sweep
from app.services.experiments import newest_experiment
from app.services.library import Search, find_embeddings
from app.services.workers import list_workers
from app.templating import templates

router = APIRouter()

NEWEST = 5


@router.get("/")
def show_home(request: Request, context: ContextDep) -> Response:
    """The newest experiment with its scatter, and the newest embeddings."""
    experiment = newest_experiment(context)
    scatter = isotropy_performance(Sweep.of(experiment), experiment.config["metric"]) if experiment else None
    shown = {
        "experiment": experiment,
        "scatter": scatter,
        "listed": find_embeddings(context, Search(), limit=NEWEST).rows,
        "workers": list_workers(context),
    }
    return templates.TemplateResponse(request, "home.html", shown)
