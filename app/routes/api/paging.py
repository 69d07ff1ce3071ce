"""Which rows of a long list are asked for, and how many there are."""

from typing import Annotated, Any

from fastapi import Query

Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]

TOTAL: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"X-Total-Count": {"description": "Rows on all pages.", "schema": {"type": "integer"}}}}
}
