"""Post-processing of embeddings over the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import FileResponse
from pydantic import Field, WithJsonSchema

from app.db.models import Embedding, PostProcessing, ResultStatus
from app.embeddings.api.embeddings import EmbeddingOut
from app.embeddings.files import get_trial_map
from app.postprocess import service
from app.web.dependencies import ContextDep, Row
from app.web.responses import FILE_RESPONSE, download_response
from isoscope.files.strict import Strict
from isotropy.catalog import METHODS


class PostProcessingRequest(Strict):
    """A method with its parameters; those left out take their defaults."""

    method: Annotated[str, WithJsonSchema({"type": "string", "enum": list(METHODS)})]
    parameters: Annotated[
        dict[str, int | float],
        Field(description="By name, as in the catalog, such as `eps` of `soft_zca` or `D` of `all_but_the_top`."),
    ] = Field({})


class PostProcessingSummary(Row):
    """A trial in a list."""

    id: str
    method: str
    parameters: dict[str, int | float]
    status: ResultStatus
    error: str | None
    created_at: datetime


class PostProcessingOut(PostProcessingSummary):
    """A trial with its results: on held-out rows before and after, and on the fitted rows after."""

    results: dict[str, Any] | None


class MakeRequest(Strict):
    """The name of the new embedding. By default it is named after its source and the method."""

    name: Annotated[str | None, Field(max_length=200)] = None


router = APIRouter(prefix="/embeddings/{embedding_id}/postprocessings", tags=["post-processing"])


@router.get("", response_model=list[PostProcessingSummary])
def list_postprocessings(context: ContextDep, embedding_id: str) -> Sequence[PostProcessing]:
    """Methods that were tried on the vectors chosen now, newest first."""
    return service.list_postprocessings(context, embedding_id)


@router.post("", status_code=202, response_model=PostProcessingOut)
def request_postprocessing(context: ContextDep, embedding_id: str, request: PostProcessingRequest) -> PostProcessing:
    """Fit a method on half of a sample of the rows and measure the other half; a stored result is returned at once."""
    return service.request_postprocessing(context, embedding_id, request.method, request.parameters)


@router.get("/{postprocessing_id}", response_model=PostProcessingOut)
def show_postprocessing(context: ContextDep, embedding_id: str, postprocessing_id: str) -> PostProcessing:
    """One trial; `status` is `ready` when its results are there."""
    return service.get_postprocessing(context, embedding_id, postprocessing_id)


@router.delete("/{postprocessing_id}", status_code=204)
def delete_postprocessing(context: ContextDep, embedding_id: str, postprocessing_id: str) -> None:
    """Delete a trial in any state, with its fitted map."""
    service.delete_postprocessing(context, embedding_id, postprocessing_id)


@router.get("/{postprocessing_id}/map.safetensors", **FILE_RESPONSE)
def show_map(context: ContextDep, embedding_id: str, postprocessing_id: str) -> FileResponse:
    """The fitted map, for `isotropy.postprocess.methods.restore(method, tensors).apply(points)`."""
    return download_response(
        get_trial_map(context, service.get_postprocessing(context, embedding_id, postprocessing_id))
    )


@router.post("/{postprocessing_id}/embedding", status_code=201, response_model=EmbeddingOut)
def create_embedding(
    context: ContextDep, embedding_id: str, postprocessing_id: str, request: MakeRequest | None = None
) -> Embedding:
    """Map all rows by this trial into a new embedding, which is then measured."""
    return service.create_postprocessed_embedding(
        context, embedding_id, postprocessing_id, request.name if request else None
    )
