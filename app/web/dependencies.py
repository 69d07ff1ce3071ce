"""FastAPI dependencies and shared API response parts."""

from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import FormData

from app.context import Context


async def get_context(request: Request) -> Context:
    """Return the process's context. Async, because a plain function would wait for a thread."""
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(get_context)]


async def read_form(request: Request) -> FormData:
    return await request.form()


FormDep = Annotated[FormData, Depends(read_form)]


class Row(BaseModel):
    """Base of responses built from a row."""

    model_config = ConfigDict(from_attributes=True)


Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]

TOTAL: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"X-Total-Count": {"description": "Rows on all pages.", "schema": {"type": "integer"}}}}
}
