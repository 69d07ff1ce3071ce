"""FastAPI dependencies, and shared parts of API responses."""

import asyncio
from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.datastructures import FormData

from app.context import PAGE_ROWS, Context
from app.core.settings import BUSY_SECONDS
from app.web.headers import SAFE_METHODS

MAX_WRITERS = 20
"""Maximum concurrent requests that may write: half of the threads, because readers need the others."""


async def get_context(request: Request) -> Context:
    """Return the process's context. Async, because a plain function would wait for a thread."""
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(get_context)]


async def read_form(request: Request) -> FormData:
    return await request.form()


FormDep = Annotated[FormData, Depends(read_form)]


async def limit_writers(request: Request) -> AsyncIterator[None]:
    """Limit the concurrent requests that may write, which could otherwise occupy all threads while SQLite is locked."""
    # Async endpoints have thread limits of their own.
    if request.method in SAFE_METHODS or iscoroutinefunction(request.scope["endpoint"]):
        yield
        return
    if "form" in request.headers.get("content-type", ""):
        await request.form()  # read first, so that a slow upload does not count as a writer
    writers: asyncio.Semaphore = request.app.state.writers
    try:
        async with asyncio.timeout(BUSY_SECONDS):
            await writers.acquire()
    except TimeoutError:
        raise PoolTimeoutError(f"{MAX_WRITERS} others wrote for {BUSY_SECONDS} s") from None
    try:
        yield
    finally:
        writers.release()


class Row(BaseModel):
    """Base of response models that are built from a row."""

    model_config = ConfigDict(from_attributes=True)


PageNumber = Annotated[int, Query(ge=1)]
Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]


class Paging(NamedTuple):
    """A range of rows of a list. ``set_total`` puts the number of all rows into a header of the response."""

    limit: int
    offset: int
    response: Response

    def set_total(self, total: int) -> None:
        self.response.headers["X-Total-Count"] = str(total)


async def _read_paging(response: Response, limit: Limit = PAGE_ROWS, offset: Offset = 0) -> Paging:
    return Paging(limit, offset, response)


PagingDep = Annotated[Paging, Depends(_read_paging)]
TOTAL: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"X-Total-Count": {"description": "Rows on all pages.", "schema": {"type": "integer"}}}}
}
"""The argument ``responses`` of routes that call ``Paging.set_total``."""
