"""Methods tried on embeddings, and embeddings made by them."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.db.models import ResultStatus
from app.routes.api.schemas.row import Row
from isotropy.catalog import METHODS


class PostProcessingRequest(BaseModel):
    """A method with its parameters; those left out take their defaults."""

    model_config = ConfigDict(extra="forbid")

    method: Annotated[str, WithJsonSchema({"type": "string", "enum": list(METHODS)})]
    parameters: Annotated[
        dict[str, int | float],
        Field(description="By the names of the catalogue, such as `eps` of `soft_zca` or `D` of `all_but_the_top`."),
    ] = {}


class PostProcessingSummary(Row):
    """A trial in a list."""

    id: str
    method: str
    parameters: dict[str, int | float]
    status: ResultStatus
    error: str | None
    created_at: datetime


class PostProcessingOut(PostProcessingSummary):
    """A trial with what was found of the rows held out, before and after, and in sample of the rows fitted on."""

    results: dict[str, Any] | None


class MakeRequest(BaseModel):
    """What to call the new embedding; by default after its source and the method."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str | None, Field(max_length=200)] = None
