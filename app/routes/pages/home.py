"""The first page: what Isoscope is, what to do, and what is going on."""

from fastapi import APIRouter, Request, Response

from app.dependencies import ContextDep
from app.figures.scatter import isotropy_performance
from app.services.experiments import list_experiments
from app.services.library import Search, find_embeddings
from app.services.workers import list_workers
from app.templating import templates

router = APIRouter()

NEWEST = 5


@router.get("/")
def show_home(request: Request, context: ContextDep) -> Response:
    """The newest experiment with its scatter, and the newest embeddings."""
    experiment = next(iter(list_experiments(context)), None)
    scatter = isotropy_performance(experiment.runs, experiment.config["metric"]) if experiment else None
    shown = {
        "experiment": experiment,
        "scatter": scatter,
        "listed": find_embeddings(context, Search(), limit=NEWEST).rows,
        "workers": list_workers(context),
    }
    return templates.TemplateResponse(request, "home.html", shown)
