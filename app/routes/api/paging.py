"""Which rows of a long list are asked for."""

from typing import Annotated

from fastapi import Query

Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]
