"""Saved views over the API."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from app.db.models import View
from app.views import service
from app.web.dependencies import ContextDep, Limit, Offset, Row
from isoscope.files.strict import Strict


class ViewRequest(Strict):
    """A page to keep."""

    name: Annotated[str, Field(description="Its name; at most 200 characters.")]
    path: Annotated[
        str,
        Field(
            description="Of a page whose state is in its address: /experiments, /experiments/{id}, /runs/{id}, "
            "/compare, /compare/runs, /compare/runs/list, /measures, /playground, /embeddings, /embeddings/{id} "
            "or /encodings/{id}."
        ),
    ]
    query: Annotated[str, Field(description="What follows the question mark; at most 64,000 characters.")] = ""


class ViewOut(Row):
    """A page that was kept."""

    id: Annotated[str, Field(description="/v/{id} answers with the way to the page.")]
    name: str
    path: str
    query: str
    created_at: datetime


router = APIRouter(prefix="/views", tags=["views"])


@router.get("", response_model=list[ViewOut])
def list_views(context: ContextDep, limit: Limit = 100, offset: Offset = 0) -> list[View]:
    """Saved views, newest first."""
    return service.list_views(context, limit=limit, offset=offset)


@router.post("", status_code=201, response_model=ViewOut)
def create_view(context: ContextDep, request: ViewRequest) -> View:
    """Keep a page with all that is chosen there. `/v/{id}` then leads to it."""
    return service.create_view(context, request.name, request.path, request.query)


@router.get("/{view_id}", response_model=ViewOut)
def show_view(context: ContextDep, view_id: str) -> View:
    """One view: its page and the query of it."""
    return service.get_view(context, view_id)


@router.delete("/{view_id}", status_code=204)
def delete_view(context: ContextDep, view_id: str) -> None:
    """Forget a view; what it shows stays."""
    service.delete_view(context, view_id)
