"""One run: how it was set up, how it trains, what came out."""

from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from app.context import Context
from app.db.models import Pooling, Run
from app.db.stated import Stated
from app.db.trivial import trivial_score
from app.dependencies import ContextDep
from app.errors import NotFoundError
from app.figures import learning
from app.figures.depth import by_depth
from app.figures.figure import Figure
from app.figures.layer_measures import WATCHED, slug_of, title_of
from app.figures.methods import weights
from app.figures.metrics import SCALES
from app.figures.probe import probe
from app.figures.profiles import profiles
from app.figures.sweep import Sweep
from app.regularizers import NAMES
from app.routes.downloads import csv_of, file_of
from app.routes.pages.answers import FileKind, figure_file
from app.routes.pages.attempts import OUTCOMES
from app.routes.pages.failing import advice_of
from app.routes.pages.run_config import configuration
from app.routes.pages.sweep_form import LABELS
from app.services.files import get_model
from app.services.predictions import count_predictions, get_predictions
from app.services.run_data import ACTIVATION, find_run_figure
from app.services.runs import find_baseline, get_run
from app.services.workers import list_workers, worker_lost
from app.templating import templates

router = APIRouter(prefix="/runs/{run_id}")

MeasureQuery = Annotated[str, Query()]

COUNTS = {
    "n_questions": "validation questions",
    "n_windows": "windows they are read in",
    "n_train_questions": "questions trained on",
    "n_train_windows": "windows trained on",
    "n_train_left_out": "questions left out of training, their answer not in the text",
    "n_questions_cut": "questions cut, too long for a window",
}
POINTS = {Pooling.FIRST: "first tokens", Pooling.LAST: "last tokens", Pooling.MEAN: "means of tokens"}


class ByLayer(NamedTuple):
    """A measure of the trained model's layers, as the page's table has it."""

    slug: str
    title: str
    scores: list[float | None]
    n: int | None
    reasons: dict[str, list[int]]
    """Why it has no value, with the layers it has none in."""


class Protocol(NamedTuple):
    """IsoScore★ by layer of some points of the trained model."""

    points: str
    zeta: float
    n: int | None
    """Points of a layer; runs of an earlier version do not tell it of the reference's."""
    scores: list[float | None]
    reasons: dict[str, list[int]]


@router.get("")
def show_run(request: Request, context: ContextDep, run_id: str, measure: MeasureQuery = WATCHED[0]) -> Response:
    """The run and its curves; the page updates itself until the run has ended."""
    run = get_run(context, run_id)
    config = Stated.of(run)
    measure = measure if measure in WATCHED else WATCHED[0]
    shown = {
        "run": run,
        "name": _whole_name(run),
        "stated": config,
        "scale": SCALES[config.metric],
        "scales": SCALES,
        "methods": {NAMES[name]: lam for name, lam in weights(config)},
        "curves": [learning.loss(run), *([learning.penalty(run)] if config.weights else [])],
        "layers": probe(run, measure),
        "measure": measure,
        "watched": {slug: title_of(slug) for slug in WATCHED},
        "twonn": _twonn(run),
        "by_layer": _by_layer(run.results or {}),
        "trivial": trivial_score(run),
        "predicted": count_predictions(context, run_id),
        "details": _details(run.results or {}),
        "protocols": _protocols(run.results or {}),
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
        "name": _whole_name(run),
        "here": f"/runs/{run_id}",
        "figure": read_run_figure(context, run, slug, measure),
        "query": urlencode({"measure": measure}) if slug == "layers" else "",
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


def read_run_figure(context: Context, run: Run, slug: str, measure: str) -> Figure:
    """One figure of a run; the measure is that of its layers."""
    match slug:
        case "loss":
            return learning.loss(run)
        case "penalty":
            return learning.penalty(run)
        case "layers":
            return probe(run, measure if measure in WATCHED else WATCHED[0])
        case "twonn":
            return _twonn(run)
        case "activation":
            found = find_run_figure(context, run.id, ACTIVATION)
            return profiles(_alone(run), {run.id: found} if found else {})
    raise NotFoundError(f"There is no figure {slug!r} of this run.")


def _alone(run: Run) -> Sweep:
    return Sweep([run], {})


def _whole_name(run: Run) -> str:
    """What its files are called by."""
    return f"{run.experiment.name}, {_name(run)}"


def _name(run: Run) -> str:
    (setting,) = _alone(run).settings
    return f"{_alone(run).label(setting)}, seed {run.seed}"


def _twonn(run: Run) -> Figure:
    results = run.results or {}
    found = results.get("by_layer", {}).get("twonn")
    n = results.get("by_layer_n", {}).get("twonn")
    return by_depth(_alone(run), {run.id: {**found, "n": n}} if found else {}, "twonn")


def _by_layer(results: dict[str, Any]) -> list[ByLayer]:
    """All measures by layer: those of sentence vectors have an n of their own, the others that of the tokens."""
    return [
        ByLayer(
            slug_of(measure),
            title_of(measure),
            found["values"],
            results.get("by_layer_n", {}).get(measure, results.get("tokens")),
            _gathered(found["reasons"]),
        )
        for measure, found in results.get("by_layer", {}).items()
    ]


def _protocols(results: dict[str, Any]) -> list[Protocol]:
    """Of all tokens and of the reference; an earlier version kept the first beside the measures by layer."""
    if "reference" not in results:
        return []
    reference = results["reference"]
    formerly = {"values": results.get("layers", []), "reasons": results.get("layer_reasons", [])}
    tokens = results.get("by_layer", {}).get("isoscore_star", formerly)
    points = POINTS[reference.get("pooling", Pooling.FIRST)]
    reasons = _gathered(reference.get("layer_reasons", []))
    return [
        Protocol("all tokens", results["zeta"], results["tokens"], tokens["values"], _gathered(tokens["reasons"])),
        Protocol(points, reference["zeta"], reference.get("n"), reference["layers"], reasons),
    ]


def _details(results: dict[str, Any]) -> list[tuple[str, str | int]]:
    """What a kind of task says beside its metrics, in words."""
    details: list[tuple[str, str | int]] = []
    if (average := results.get("f1_average")) is not None:
        of_one = f"of the label {results['f1_positive']}" if "f1_positive" in results else "of the second label"
        details.append(("F1 is", of_one if average == "binary" else "the mean over labels, each counted the same"))
    return details + [(words, results[name]) for name, words in COUNTS.items() if name in results]


def _gathered(reasons: list[str | None]) -> dict[str, list[int]]:
    """Each reason once, with the numbers of its layers."""
    layers: dict[str, list[int]] = {}
    for layer, reason in enumerate(reasons, 1):
        if reason:
            layers.setdefault(reason, []).append(layer)
    return layers
