"""One run: how it was set up, how it trains, what came out."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from app.db.trivial import trivial_score
from app.dependencies import ContextDep
from app.results.methods import weights
from app.results.metrics import SCALES, WATCHED, is_of_texts, title_of
from app.results.run_page import (
    RUN_FIGURES,
    details_of,
    layer_table,
    protocols_of,
    read_run_figure,
    run_figures,
    whole_name,
)
from app.routes.pages.run_config import configuration
from app.routes.pages.sweep_form import LABELS
from app.routes.queries import MeasureQuery
from app.routes.responses import FileKind, csv_of, figure_file, file_of
from app.services.files import get_model
from app.services.predictions import count_predictions, get_predictions
from app.services.runs import find_baseline, get_run
from app.services.workers import list_workers, worker_lost
from app.templating import templates
from app.training.failure_advice import OUTCOMES, advice_of
from isotropy.catalog import REGULARIZERS

router = APIRouter(prefix="/runs/{run_id}")


@router.get("")
def show_run(request: Request, context: ContextDep, run_id: str, measure: MeasureQuery = WATCHED[0]) -> Response:
    """The run and its curves; the page updates itself until the run has ended."""
    run = get_run(context, run_id)
    config = run.config
    measure = measure if measure in WATCHED else WATCHED[0]
    shown = {
        "run": run,
        "name": whole_name(run),
        "scale": SCALES[config.metric],
        "scales": SCALES,
        "methods": {REGULARIZERS[name]: lam for name, lam in weights(config)},
        "figures": run_figures(context, run, measure),
        "measure": measure,
        "of_texts": is_of_texts(measure),
        "watched": {slug: title_of(slug) for slug in WATCHED},
        "by_layer": layer_table(run.results),
        "trivial": trivial_score(run),
        "predicted": count_predictions(context, run_id),
        "details": details_of(run.results),
        "protocols": protocols_of(run.results),
        "configuration": configuration(run.config, find_baseline(context, run)),
        "advice": advice_of(run),
        "labels": LABELS,
        "outcomes": OUTCOMES,
        "lost": worker_lost(run, list_workers(context)),
    }
    return templates.TemplateResponse(request, "run.html", shown)


@router.get("/model.zip")
def download_model(context: ContextDep, run_id: str) -> FileResponse:
    """The trained model, where it was kept."""
    return file_of(get_model(context, run_id))


@router.get("/predictions.csv")
def download_predictions(context: ContextDep, run_id: str) -> StreamingResponse:
    """What the run predicted, row by row."""
    return csv_of(get_predictions(context, run_id))


@router.get("/figures/{slug}.html")
def show_figure_page(
    request: Request, context: ContextDep, run_id: str, slug: str, measure: MeasureQuery = WATCHED[0]
) -> Response:
    """A figure of the run on a page of its own, of which the run's page takes it when it is reached."""
    run = get_run(context, run_id)
    shown = {
        "name": whole_name(run),
        "here": f"/runs/{run_id}",
        "figure": read_run_figure(context, run, slug, measure),
        "query": RUN_FIGURES[slug].asked(measure),
        "folded": True,
        "live": not run.status.final,
    }
    return templates.TemplateResponse(request, "training_figure.html", shown)


@router.get("/figures/{slug}.{kind}")
def show_figure(
    context: ContextDep, run_id: str, slug: str, kind: FileKind, measure: MeasureQuery = WATCHED[0]
) -> Response:
    """A figure of the run."""
    return figure_file([read_run_figure(context, get_run(context, run_id), slug, measure)], slug, kind)
