"""What routes ask FastAPI for."""

from typing import Annotated

from fastapi import Depends, Request

from app.context import Context


async def get_context(request: Request) -> Context:
    """The context made at start. A coroutine, as a plain function would wait for a thread."""
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(get_context)]
