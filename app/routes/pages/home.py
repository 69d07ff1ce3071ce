"""The first page, the catalogue of measures, and what the disks hold."""

from fastapi import APIRouter, Request, Response

from app.dependencies import ContextDep
from app.figures.scatter import isotropy_performance
from app.results.sweep import Sweep
from app.services.experiments import newest_experiment
from app.services.library import Search, find_embeddings
from app.services.space import measure_space
from app.services.workers import list_workers
from app.templating import templates
from isoscope.files.upload_formats import Role, titles
from isotropy.catalog import GROUPS, measures_of

router = APIRouter()

NEWEST = 5


@router.get("/")
def show_home(request: Request, context: ContextDep) -> Response:
    """The newest experiment with its scatter, and the newest embeddings."""
    experiment = newest_experiment(context)
    scatter = isotropy_performance(Sweep.of(experiment), experiment.config.metric) if experiment else None
    shown = {
        "experiment": experiment,
        "scatter": scatter,
        "listed": find_embeddings(context, Search(), limit=NEWEST).rows,
        "formats": titles(Role.VECTORS),
        "workers": list_workers(context),
    }
    return templates.TemplateResponse(request, "home.html", shown)


@router.get("/measures")
def list_measures(request: Request) -> Response:
    """Every measure by group, with its formula, range, pitfall and source."""
    groups = [(group, heading, measures) for group, heading in GROUPS.items() if (measures := measures_of(group))]
    return templates.TemplateResponse(request, "measures.html", {"groups": groups})


@router.get("/space")
def show_space(request: Request, context: ContextDep) -> Response:
    """Disks and uses as two tables."""
    return templates.TemplateResponse(request, "space.html", {"space": measure_space(context)})
