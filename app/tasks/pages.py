"""Pages of tasks: an embedding's list and form, and each task's preview, progress and results."""

from collections.abc import Mapping
from math import isfinite, nan
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile

from app.context import PAGE_ROWS, Context, count_pages, offset_of
from app.core.validation_messages import validate_form
from app.db.models import UNFINISHED_TASK, TaskRun, TaskStatus
from app.db.task import MapVariant, Side, TaskConfig
from app.db.types import RowId
from app.embeddings.decision import find_deciding_task
from app.embeddings.family import describe_best, list_scored_embeddings, read_family
from app.embeddings.remedies import rank_remedies
from app.embeddings.report import TABS
from app.embeddings.service import get_embedding, require_ready
from app.tasks import service
from app.tasks.api import show_map
from app.tasks.cutoff_figures import cutoff_figures
from app.tasks.family_figures import family_figure, list_task_figures
from app.tasks.figures import name_roles, task_figures
from app.tasks.maps import create_mapped_embedding
from app.tasks.others import EmbeddingChoice, judge_others, list_others, list_possible_tasks
from app.tasks.qrels import create_task_of_split, list_qrels
from app.training.queue_status import list_workers
from app.web.dependencies import ContextDep, FormDep, PageNumber
from app.web.responses import FileKind, figure_file, redirect_to, render
from app.web.templating import confirm_deletion
from app.web.uploads import chosen_file, in_parser_slot
from isoscope.core.errors import InvalidError, IsoscopeError, TooLargeError, UnsupportedFormatError
from isoscope.core.formatting import quote
from isoscope.files.upload_formats import Role, suffixes
from isoscope.rank_relation import describe_relation
from isotropy.catalog import METRICS, TASKS, Similarity, TruthKind
from isotropy.catalog.calibration import PromiseKind

Promise = Literal["miss-0.01", "miss-0.05", "miss-0.1", "false_match-0.01", "false_match-0.05", "false_match-0.1"]
USUAL_PROMISE: Promise = "miss-0.05"

embedding_router = APIRouter(prefix="/embeddings/{embedding_id}/tasks")
router = APIRouter(prefix="/tasks/{task_id}")


@embedding_router.get("")
def show_tasks(request: Request, context: ContextDep, embedding_id: str, page: PageNumber = 1) -> Response:
    return _render_list(request, context, embedding_id, dict(request.query_params), page=page)


@embedding_router.post("")
@in_parser_slot
def check_task(
    request: Request,
    context: ContextDep,
    embedding_id: str,
    form: FormDep,
    file: Annotated[UploadFile | str | None, File()] = None,
    queries_id: Annotated[str, Form()] = "",
    split: Annotated[str, Form()] = "",
) -> Response:
    """Check a task against the rows and show the preview, or the form with its errors."""
    values = {name: str(form.get(name, "")) for name in TaskConfig.model_fields}
    truth = chosen_file(file)
    try:
        config = validate_form(TaskConfig, {name: text.strip() for name, text in values.items() if text.strip()})
        if split and truth is None:
            task = create_task_of_split(context, embedding_id, config, split, queries_id or None, launch=False)
        else:
            task = service.create_task(context, embedding_id, config, queries_id or None, truth, launch=truth is None)
    except (InvalidError, TooLargeError, UnsupportedFormatError) as error:
        return _render_list(request, context, embedding_id, values | {"queries_id": queries_id, "split": split}, error)
    return redirect_to(f"/tasks/{task.id}")


@router.get("")
def show_task(
    request: Request, context: ContextDep, task_id: str, promise: Annotated[Promise, Query()] = USUAL_PROMISE
) -> Response:
    return _render_task(request, context, service.get_task(context, task_id), promise=promise)


def _render_task(
    request: Request,
    context: Context,
    task: TaskRun,
    problem: IsoscopeError | None = None,
    promise: Promise = USUAL_PROMISE,
) -> Response:
    embedding = get_embedding(context, task.embedding_id)
    values: dict[str, Any] = {
        "task": task,
        "tabs": TABS,
        "embedding": embedding,
        "queries": None if task.queries_id is None else get_embedding(context, task.queries_id),
        "kind": TASKS[task.config.kind],
        "launchable": task.status in service.LAUNCHABLE,
        "running": task.status in UNFINISHED_TASK,
    }
    if task.status is TaskStatus.QUEUED:
        values["workers"] = list_workers(context)
    if task.results is not None:
        members = read_family(context, task.family_key)
        promised_kind, promised_rate = promise.split("-")
        values |= {
            "figures": task_figures(task.results),
            "roles": name_roles(task.results),
            "title": METRICS[task.results.metric],
            "members": members,
            "waiting": [member for member in members if member.status in UNFINISHED_TASK],
            "family": family_figure(members, task.results.metric),
            "best": describe_best(members, task.results.metric),
            "statement": describe_relation(list_scored_embeddings(members), task.results.metric),
            "others": list_others(context, task),
            "cutoff_figures": cutoff_figures(task.results.calibration),
            "promised": (PromiseKind(promised_kind), float(promised_rate)),
        }
    return render(request, "tasks/task.html", values, problem)


@router.post("/others")
def judge_other_embeddings(
    request: Request,
    context: ContextDep,
    task_id: str,
    every_layer: Annotated[str, Form()] = "",
    others: Annotated[list[RowId] | None, Form()] = None,
) -> Response:
    choices = None if every_layer else [EmbeddingChoice(embedding_id=embedding_id) for embedding_id in others or []]
    try:
        if choices == []:
            raise InvalidError("Choose at least one embedding.", "others")
        judge_others(context, task_id, choices)
    except (InvalidError, TooLargeError) as error:
        return _render_task(request, context, service.get_task(context, task_id), error)
    return redirect_to(f"/tasks/{task_id}#family")


@router.post("/launch")
def launch(request: Request, context: ContextDep, task_id: str, match: Annotated[str, Form()] = "") -> Response:
    try:
        service.launch_task(context, task_id, _parse_score(match))
    except InvalidError as error:
        return _render_task(request, context, service.get_task(context, task_id), error)
    return redirect_to(f"/tasks/{task_id}")


@router.post("/cancel")
def cancel(context: ContextDep, task_id: str) -> Response:
    service.cancel_task(context, task_id)
    return redirect_to(f"/tasks/{task_id}")


@router.get("/delete")
def confirm_delete(request: Request, context: ContextDep, task_id: str) -> Response:
    task = service.get_task(context, task_id)
    name = f"the task of {get_embedding(context, task.embedding_id).name}"
    loss = "This deletes its ground truth, scores and maps. The embedding stays."
    return confirm_deletion(request, "data", name, loss, f"/tasks/{task_id}")


@router.post("/delete")
def delete(context: ContextDep, task_id: str) -> Response:
    task = service.get_task(context, task_id)
    service.delete_task(context, task_id)
    return redirect_to(f"/embeddings/{task.embedding_id}/tasks")


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, task_id: str, slug: str, kind: FileKind) -> Response:
    return figure_file(list_task_figures(context, task_id), slug, kind)


router.get("/map.safetensors")(show_map)


@router.post("/embedding")
def make_embedding(
    context: ContextDep,
    task_id: str,
    which: Annotated[MapVariant, Form()] = "chosen",
    of: Annotated[Side, Form()] = "corpus",
) -> Response:
    return redirect_to(f"/embeddings/{create_mapped_embedding(context, task_id, which, side=of).id}")


def _parse_score(text: str) -> float | None:
    """Return the typed score, None if empty. Raise InvalidError unless it is a finite number."""
    try:
        score = float(text) if text.strip() else None
    except ValueError:
        score = nan
    if score is not None and not isfinite(score):
        raise InvalidError(f"The minimum score of a match is {quote(text)}. Give a number.", "match")
    return score


def _render_list(
    request: Request,
    context: Context,
    embedding_id: str,
    values: Mapping[str, str],
    problem: IsoscopeError | None = None,
    page: int = 1,
) -> Response:
    embedding = get_embedding(context, embedding_id)
    require_ready(embedding, "a task")
    annotations = (embedding.inspection or {}).get("annotations", [])
    deciding_task, qrels = find_deciding_task(context, embedding_id), list_qrels(context, embedding)
    results = None if deciding_task is None else deciding_task.results
    labels = (embedding.selection or {}).get("labels") or (deciding_task.config.labels if deciding_task else None) or ""
    likely_kind = TruthKind.LABELS if labels and not qrels else TruthKind.QUERIES
    chosen_kind = next((kind for kind in TruthKind if kind == values.get("kind")), likely_kind)
    pages = count_pages(service.count_tasks(context, embedding_id))
    page = min(page, pages)
    tasks = service.list_tasks(context, embedding_id, limit=PAGE_ROWS, offset=offset_of(page))
    page_values = {
        "embedding": embedding,
        "tabs": TABS,
        "deciding_task": deciding_task,
        "results": results,
        "score_title": "" if results is None else METRICS[results.metric],
        "remedies": rank_remedies(results),
        "has_form_values": "kind" in values,
        "tasks": tasks,
        "page": page,
        "pages": pages,
        "busy": any(task.status in UNFINISHED_TASK for task in tasks),
        "possible_tasks": list_possible_tasks(context, embedding),
        "kinds": TASKS,
        "chosen": chosen_kind,
        "metrics": {metric: METRICS[metric] for metric in TASKS[chosen_kind].metrics},
        "similarities": list(Similarity),
        "columns": [annotation["name"] for annotation in annotations],
        "queries": service.list_queries(context, embedding) if chosen_kind in service.KINDS_WITH_QUERIES else [],
        "qrels": qrels if chosen_kind is TruthKind.QUERIES else [],
        "suffixes": suffixes(Role.ANNOTATIONS),
        "max_bytes": context.settings.max_dataset_bytes,
        "values": {
            **dict.fromkeys((*TaskConfig.model_fields, "queries_id", "split"), ""),
            "labels": labels,
            **values,
        },
    }
    return render(request, "tasks/tasks.html", page_values, problem)
