"""Saved views over the API."""

from fastapi import APIRouter

from app.db.models import View
from app.dependencies import ContextDep
from app.routes.api.paging import Limit, Offset
from app.routes.api.schemas.views import ViewOut, ViewRequest
from app.services import views

router = APIRouter(prefix="/views", tags=["views"])


@router.get("", response_model=list[ViewOut])
def list_views(context: ContextDep, limit: Limit = 100, offset: Offset = 0) -> list[View]:
    """Saved views, newest first."""
    return views.list_views(context, limit=limit, offset=offset)


@router.post("", status_code=201, response_model=ViewOut)
def create_view(context: ContextDep, request: ViewRequest) -> View:
    """Keep a page with all that is chosen there. `/v/{id}` then leads to it."""
    return views.create_view(context, request.name, request.path, request.query)


@router.get("/{view_id}", response_model=ViewOut)
def show_view(context: ContextDep, view_id: str) -> View:
    """One view: its page and the query of it."""
    return views.get_view(context, view_id)


@router.delete("/{view_id}", status_code=204)
def delete_view(context: ContextDep, view_id: str) -> None:
    """Forget a view; what it shows stays."""
    views.delete_view(context, view_id)
