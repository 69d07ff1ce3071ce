"""The lab: try a method of post-processing on held-out rows, and make a new embedding with it."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, Response

from app.context import Context
from app.db.models import Embedding, PostProcessing
from app.db.types import RowId
from app.embeddings.decision import find_deciding_task
from app.embeddings.files import get_trial_map
from app.embeddings.lookups import read_neighbors
from app.embeddings.remedies import find_remedy
from app.embeddings.report import TABS
from app.embeddings.service import get_embedding, require_ready
from app.postprocess.method_settings import (
    MethodSettings,
    check_settings,
    compute_mean_variance,
    count_trial_rows,
    list_parameter_inputs,
    parse_parameters,
)
from app.postprocess.service import (
    create_postprocessed_embedding,
    find_last_result,
    find_postprocessing,
    request_postprocessing,
)
from app.postprocess.trial import describe_outcome, list_comparisons, trial_figures
from app.web.dependencies import ContextDep, FormDep
from app.web.responses import FileKind, download_response, figure_file, redirect_to, render
from isoscope.core.errors import InvalidError, NotFoundError
from isotropy.catalog import METHODS, METRICS, MethodEntry

router = APIRouter(prefix="/embeddings/{embedding_id}/lab")

DEFAULT_METHOD = "centring"
WHITENING_METHODS = ("pca_whitening", "zca_whitening")
TRAINED_METHOD = "flow"
MAX_TEXT_CHARACTERS = 200


class TrialRequest(NamedTuple):
    """A method, the texts of its parameters, and a name to look up, from the URL or the form."""

    method: MethodEntry
    texts: dict[str, str]
    name: str

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> "TrialRequest":
        texts = {key: str(value)[:MAX_TEXT_CHARACTERS] for key, value in fields.items()}
        if (method := METHODS.get(texts.get("method", DEFAULT_METHOD))) is None:
            raise NotFoundError(f"There is no method {texts['method']!r}: choose one in the lab.")
        parameters = {
            parameter.name: texts[parameter.name] for parameter in method.parameters if parameter.name in texts
        }
        return cls(method, parameters, texts.get("name", ""))

    def to_settings(self, embedding: Embedding) -> MethodSettings:
        return check_settings(embedding, self.method.slug, parse_parameters(self.method, self.texts))


@router.get("")
def show_lab(request: Request, context: ContextDep, embedding_id: str) -> Response:
    """Show a trial of the requested method, else of the remedy that a task chose or that the worst finding needs."""
    embedding = _get_measured_embedding(context, embedding_id)
    if "method" not in request.query_params and (query := find_remedy(context, embedding)):
        return redirect_to(f"/embeddings/{embedding_id}/lab?{query}")
    return _render_lab(request, context, embedding, TrialRequest.parse(request.query_params))


@router.post("")
def start_trial(
    request: Request,
    context: ContextDep,
    embedding_id: str,
    form: FormDep,
    instead_of: Annotated[RowId, Form()] = "",
) -> Response:
    embedding, trial_request = _get_measured_embedding(context, embedding_id), TrialRequest.parse(form)
    try:
        settings = trial_request.to_settings(embedding)
    except InvalidError:
        return _render_lab(request, context, embedding, trial_request)
    request_postprocessing(context, embedding_id, settings.method, settings.parameters, instead_of or None)
    return redirect_to(f"/embeddings/{embedding_id}/lab?{_write_query_string(settings, trial_request.name)}")


@router.post("/embedding")
def make_embedding(
    context: ContextDep,
    embedding_id: str,
    postprocessing_id: Annotated[RowId, Form()],
    name: Annotated[str, Form()] = "",
) -> Response:
    embedding = create_postprocessed_embedding(context, embedding_id, postprocessing_id, name or None)
    return redirect_to(f"/embeddings/{embedding.id}")


@router.get("/figures/{slug}.{kind}")
def show_figure(request: Request, context: ContextDep, embedding_id: str, slug: str, kind: FileKind) -> Response:
    return figure_file(trial_figures(_get_finished_trial(request, context, embedding_id)), slug, kind)


@router.get("/map.safetensors")
def show_map(request: Request, context: ContextDep, embedding_id: str) -> Response:
    return download_response(get_trial_map(context, _get_finished_trial(request, context, embedding_id)))


def _get_measured_embedding(context: Context, embedding_id: str) -> Embedding:
    embedding = get_embedding(context, embedding_id)
    require_ready(embedding, "post-processing")
    return embedding


def _get_finished_trial(request: Request, context: Context, embedding_id: str) -> PostProcessing:
    embedding = get_embedding(context, embedding_id)
    settings = TrialRequest.parse(request.query_params).to_settings(embedding)
    if (trial := find_postprocessing(context, embedding, settings)) is None or trial.results is None:
        raise NotFoundError(f"{settings.title} has no result yet. Open the lab to compute it.")
    return trial


def _render_lab(request: Request, context: Context, embedding: Embedding, trial_request: TrialRequest) -> Response:
    settings: MethodSettings | None = None
    problem: InvalidError | None = None
    try:
        settings = trial_request.to_settings(embedding)
    except InvalidError as error:
        problem = error
    rows, fit_rows = count_trial_rows(embedding)
    task, method = find_deciding_task(context, embedding.id), trial_request.method
    task_results = None if task is None else task.results
    variants = [] if task_results is None else task_results.variants
    values: dict[str, Any] = {
        "embedding": embedding,
        "tabs": TABS,
        "score_title": "" if task_results is None else METRICS[task_results.metric],
        "judged": [variant for variant in variants if variant.method == method.slug],
        "method": method,
        "parameter_inputs": list_parameter_inputs(embedding, method, trial_request.texts),
        "mean_variance": compute_mean_variance(embedding),
        "rows": rows,
        "trained": method.slug == TRAINED_METHOD,
        "tautology": method.slug in WHITENING_METHODS and fit_rows > (embedding.d or 0),
        "name": trial_request.name,
        "trial": None,
        "result": None,
    }
    if settings is not None:
        trial = find_postprocessing(context, embedding, settings)
        waiting = trial is not None and trial.waiting
        result = find_last_result(context, embedding, settings.method) if waiting else trial
        values |= {
            "title": settings.title,
            "query": _write_query_string(settings, trial_request.name),
            "trial": trial,
            "waiting": waiting,
        }
        if result is not None and result.results is not None:
            result_settings, comparisons = MethodSettings(result.method, result.parameters), list_comparisons(result)
            neighbors = result.results.get("neighbours")
            values |= {
                "result": result,
                "result_title": result_settings.title,
                "result_query": _write_query_string(result_settings),
                "comparisons": comparisons,
                "outcome": describe_outcome(METHODS[result.method].name, comparisons),
                "figures": trial_figures(result),
                "neighbors": neighbors and read_neighbors(neighbors | result_settings._asdict(), trial_request.name),
            }
    return render(request, "postprocess/lab.html", values, problem)


def _write_query_string(settings: MethodSettings, name: str = "") -> str:
    return urlencode({"method": settings.method, **settings.parameters, **({"name": name} if name else {})})
