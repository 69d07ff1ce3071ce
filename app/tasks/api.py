"""Task runs over the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, File, Form, Query, Request, UploadFile
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field, FiniteFloat

from app.db.config import Seed
from app.db.models import Embedding, Pooling, TaskRun, TaskStatus
from app.db.task import Column, JudgedVariant, MapFile, MapVariant, ScoreSoFar, Side, TaskConfig, TaskMaps, TaskResults
from app.db.types import RowId
from app.embeddings.api.embeddings import EmbeddingOut
from app.embeddings.family import FamilyMember, describe_best, list_scored_embeddings, read_family
from app.embeddings.service import get_embedding
from app.tasks import others, service
from app.tasks.maps import create_mapped_embedding, get_map
from app.tasks.others import MAX_OTHERS, EmbeddingChoice, LeftOutLayer, PossibleTaskOut
from app.tasks.qrels import create_task_of_split
from app.tasks.service import TaskSummary
from app.web.dependencies import ContextDep, Limit, Offset, Row
from app.web.responses import FILE_RESPONSE, download_response
from app.web.uploads import in_parser_slot, to_incoming
from isoscope.core.errors import InvalidError
from isoscope.files.ground_truth import TruthPreview
from isoscope.files.strict import Strict
from isoscope.rank_relation import relation_of
from isotropy.catalog import METRICS, Similarity, TruthKind


class TaskOut(Row):
    """A task run of an embedding: its settings, progress and results."""

    id: str
    embedding_id: str
    queries_id: str | None
    family_id: Annotated[
        str | None, Field(description="First task with the same ground truth and settings; null for that task itself.")
    ]
    config: TaskConfig
    filename: Annotated[str | None, Field(description="Name of the ground truth's file; null without one.")]
    preview: Annotated[
        TruthPreview | None,
        Field(description="What that file holds and how much of it matches the rows; null if it is another task's."),
    ]
    status: TaskStatus
    done: Annotated[int, Field(description="Variants judged so far.")]
    total: Annotated[
        int | None, Field(description="Number of variants to judge; null until the vectors have been read.")
    ]
    so_far: Annotated[list[ScoreSoFar], Field(description="Scores so far, on the part that chooses.")]
    error: str | None
    notes: Annotated[list[str] | None, Field(description="What was left out.")]
    results: Annotated[TaskResults | None, Field(description="As `isoscope decide --json` prints it.")]
    maps: Annotated[TaskMaps | None, Field(description="Lines of NumPy that apply `map.safetensors`.")]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class MemberOut(Row):
    """An embedding judged by the same task: its vectors as they are, and the variant that was chosen for them."""

    task_id: str
    embedding_id: str
    name: str
    layer: int | None
    pooling: Pooling | None
    status: TaskStatus
    error: str | None
    as_it_is: Annotated[JudgedVariant | None, Field(description="Null until it is judged, like the next two.")]
    chosen: JudgedVariant | None
    report: Annotated[int | None, Field(description="Number of units that the scores are on.")]


class RankRelationOut(Row):
    """Spearman's correlation of IsoScore and score over these embeddings as they are, with p by permutation."""

    embeddings: int
    rho: float | None
    p: Annotated[
        float | None, Field(description="Null where layers of one model, which depend on each other, are among them.")
    ]


class FamilyOut(BaseModel):
    """Embeddings judged by the same ground truth, split and settings."""

    members: Annotated[list[MemberOut], Field(description="Layers in order, then the oldest first.")]
    relation: Annotated[RankRelationOut | None, Field(description="Null for fewer than five embeddings.")]
    conclusion: Annotated[str, Field(description="Which scores highest, if that is clear; empty for fewer than two.")]
    left_out: Annotated[list[LeftOutLayer], Field(description="Requested layers that cannot be judged.")] = []


class OthersIn(Strict):
    """Other embeddings to judge by the same task."""

    others: Annotated[
        list[EmbeddingChoice] | None,
        Field(min_length=1, max_length=MAX_OTHERS, description="Null: every other layer of its encoding or file."),
    ] = None


class MapRequest(Strict):
    """Variant, vectors and name of the new embedding. By default it is named after its source and the variant."""

    which: MapVariant = "chosen"
    of: Side = "corpus"
    name: Annotated[str | None, Field(max_length=200)] = None


embedding_router = APIRouter(prefix="/embeddings/{embedding_id}/tasks", tags=["tasks"])
router = APIRouter(prefix="/tasks/{task_id}", tags=["tasks"])


@embedding_router.get("", response_model=list[TaskSummary])
def list_tasks(context: ContextDep, embedding_id: str, limit: Limit = 100, offset: Offset = 0) -> Sequence[TaskSummary]:
    """Task runs of an embedding, newest first."""
    return service.list_tasks(context, embedding_id, limit=limit, offset=offset)


@embedding_router.post("", status_code=201, response_model=TaskOut)
@in_parser_slot
def create_task(
    request: Request,
    context: ContextDep,
    embedding_id: str,
    kind: Annotated[TruthKind, Form(description="What the ground truth is.")],
    file: Annotated[
        UploadFile | None, File(description="Query ids, document ids and relevance; or two ids and a score.")
    ] = None,
    split: Annotated[
        str | None,
        Form(max_length=100, description="Or the qrels of this split, which came with the texts of the embedding."),
    ] = None,
    queries_id: Annotated[
        RowId | None, Form(description="The embedding of the queries; by default those that came with the split.")
    ] = None,
    similarity: Annotated[Similarity, Form()] = Similarity.COSINE,
    metric: Annotated[str | None, Form(description=f"One of {', '.join(METRICS)}; else the kind's usual one.")] = None,
    labels: Annotated[Column | None, Form(description="The column of labels.")] = None,
    groups: Annotated[Column | None, Form(description="Column that groups dependent queries, pairs or rows.")] = None,
    ids: Annotated[Column | None, Form(description="The column of ids, if not id or _id.")] = None,
    query_ids: Annotated[Column | None, Form(description="The column of ids of the queries.")] = None,
    seed: Annotated[Seed, Form(description="Seed of the split and of random methods.")] = 0,
    tolerance: Annotated[
        FiniteFloat, Form(ge=0, le=1, description="How much lower the smallest variant may score.")
    ] = 0.01,
    match: Annotated[
        FiniteFloat | None, Form(description="Minimum score of a match, for pairs; not needed if scores are 0 and 1.")
    ] = None,
    full: Annotated[bool, Form(description="All methods with all dimensions and storages.")] = False,
    launch: Annotated[bool, Form(description="False keeps a draft.")] = True,
) -> TaskRun:
    """Check the ground truth against the rows, and judge variants of the vectors by it."""
    config = TaskConfig(
        kind=kind, similarity=similarity, metric=metric, labels=labels, groups=groups, ids=ids, query_ids=query_ids,
        seed=seed, match=match, full=full, tolerance=tolerance,
    )  # fmt: skip
    if split is not None:
        if file is not None:
            raise InvalidError("Give either a file or a split; both are ground truth.", "split")
        return create_task_of_split(context, embedding_id, config, split, queries_id, launch=launch)
    truth = None if file is None else to_incoming(file)
    return service.create_task(context, embedding_id, config, queries_id, truth, launch=launch)


@embedding_router.get("/possible")
def list_possible_tasks(context: ContextDep, embedding_id: str) -> list[PossibleTaskOut]:
    """Ground truth of other embeddings of the same rows: `POST /tasks/{task_id}/others` judges this one by it."""
    return others.list_possible_tasks(context, get_embedding(context, embedding_id))


@router.get("", response_model=TaskOut)
def show_task(context: ContextDep, task_id: str) -> TaskRun:
    """One task run; `results` are there when its `status` is `finished`."""
    return service.get_task(context, task_id)


@router.post("/launch", response_model=TaskOut)
def launch_task(
    context: ContextDep,
    task_id: str,
    match: Annotated[FiniteFloat | None, Query(description="Minimum score of a match, for pairs with scores.")] = None,
) -> TaskRun:
    """Queue a draft, or a task that failed or was cancelled; with `match`, finished pairs too."""
    return service.launch_task(context, task_id, match)


@router.get("/family")
def show_family(context: ContextDep, task_id: str) -> FamilyOut:
    """Embeddings judged by the same task, with the relation of isotropy and performance over them."""
    task = service.get_task(context, task_id)
    return _build_family_out(task, read_family(context, task.family_key))


@router.post("/others", status_code=201)
def judge_others(context: ContextDep, task_id: str, request: OthersIn) -> FamilyOut:
    """Judge other embeddings of the same rows by this task; what was judged already is left as it is."""
    judged = others.judge_others(context, task_id, request.others)
    return _build_family_out(service.get_task(context, task_id), judged.members, judged.left_out)


def _build_family_out(
    task: TaskRun, members: Sequence[FamilyMember], left_out: Sequence[LeftOutLayer] = ()
) -> FamilyOut:
    relation = relation_of(list_scored_embeddings(members))
    return FamilyOut(
        members=[MemberOut.model_validate(member) for member in members],
        relation=None if relation is None else RankRelationOut.model_validate(relation),
        conclusion=describe_best(members, task.config.judged_by),
        left_out=list(left_out),
    )


@router.post("/cancel", response_model=TaskOut)
def cancel_task(context: ContextDep, task_id: str) -> TaskRun:
    """Cancel a queued or running task."""
    return service.cancel_task(context, task_id)


@router.delete("", status_code=204)
def delete_task(context: ContextDep, task_id: str) -> None:
    """Delete a task run with its ground truth and maps."""
    service.delete_task(context, task_id)


@router.get("/map.safetensors", **FILE_RESPONSE)
def show_map(
    context: ContextDep,
    task_id: str,
    which: Annotated[MapFile, Query(description="Variant whose map to return, or the map of the cutoffs.")] = "chosen",
) -> FileResponse:
    """The map of the chosen or the smallest variant, whose NumPy is in `maps`, or that of `results.calibration`."""
    return download_response(get_map(context, task_id, which))


@router.post("/embedding", status_code=201, response_model=EmbeddingOut)
def create_embedding(context: ContextDep, task_id: str, request: MapRequest | None = None) -> Embedding:
    """Map the corpus or the queries by the chosen or the smallest variant, as a new embedding, measured when made."""
    map_request = request or MapRequest()
    return create_mapped_embedding(context, task_id, map_request.which, map_request.name, map_request.of)
