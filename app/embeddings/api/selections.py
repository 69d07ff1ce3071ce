"""Selections of an embedding over the API."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field, StrictInt

from app.db.models import Embedding
from app.embeddings.api.embeddings import EmbeddingOut
from app.embeddings.selections import LeftOut, create_selection, left_out_by
from app.web.dependencies import ContextDep
from isoscope.core.errors import InvalidError
from isoscope.files.selection import MAX_LISTED
from isoscope.files.strict import Strict

Numbers = Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(max_length=MAX_LISTED)]


class SelectionRequest(Strict):
    """What to leave out: a finding's rows and dimensions, or those that are given."""

    finding: Annotated[str | None, Field(description="Slug of a finding; then give no rows and no dimensions.")] = None
    rows: Annotated[Numbers, Field(description="Places in the file, from 0, as findings give them.")] = Field([])
    dimensions: Annotated[Numbers, Field(description="Numbers in the file, from 0.")] = Field([])
    name: Annotated[str | None, Field(max_length=200, description="Of the new embedding.")] = None


router = APIRouter(prefix="/embeddings/{embedding_id}/selections", tags=["embeddings"])


@router.post("", status_code=201, response_model=EmbeddingOut)
def post_selection(context: ContextDep, embedding_id: str, request: SelectionRequest) -> Embedding:
    """Measure the same files without some rows or dimensions, as an embedding of its own; no byte is copied.

    The same request again returns the selection that is there.
    """
    if request.finding is None:
        left_out = LeftOut(sorted(set(request.rows)), sorted(set(request.dimensions)))
    elif request.rows or request.dimensions:
        raise InvalidError("Give a finding, or rows and dimensions. Not both.", "finding")
    else:
        left_out = left_out_by(context, embedding_id, request.finding)
    return create_selection(context, embedding_id, left_out, request.name)
