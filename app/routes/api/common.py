"""What several resources share: rows of the database, and which of a long list are asked for."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict


class Row(BaseModel):
    """Base of all answers made from a row."""

    model_config = ConfigDict(from_attributes=True)


Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]

TOTAL: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"X-Total-Count": {"description": "Rows on all pages.", "schema": {"type": "integer"}}}}
}
