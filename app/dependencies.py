"""What routes ask FastAPI for."""

from typing import Annotated

from fastapi import Depends, Request

from app.context import Context


def get_context(request: Request) -> Context:
    """The context made at start."""
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(get_context)]
