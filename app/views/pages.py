"""Saved views: the list of them, saving one, opening one, deleting one."""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from app.context import PAGE_ROWS, offset_of, pages_of
from app.views.service import address_of, count_views, create_view, delete_view, get_view, list_views
from app.web.dependencies import ContextDep
from app.web.responses import render, see
from app.web.templating import confirm_deletion

router = APIRouter()


@router.get("/views")
def list_all(request: Request, context: ContextDep, page: Annotated[int, Query(ge=1)] = 1, saved: str = "") -> Response:
    """All views, newest first; with ``saved``, the one that was saved just now at their head."""
    shown = {
        "views": list_views(context, limit=PAGE_ROWS, offset=offset_of(page)),
        "saved": get_view(context, saved) if saved else None,
        "page": page,
        "pages": pages_of(count_views(context)),
        "base": str(request.base_url).rstrip("/"),
    }
    return render(request, "views/views.html", shown)


@router.post("/views")
def save(
    context: ContextDep,
    name: Annotated[str, Form()] = "",
    path: Annotated[str, Form()] = "",
    query: Annotated[str, Form()] = "",
) -> Response:
    return see(f"/views?saved={create_view(context, name, path, query).id}")


@router.get("/v/{view_id}")
def open_view(context: ContextDep, view_id: str) -> Response:
    return see(address_of(get_view(context, view_id)))


@router.get("/views/{view_id}/delete")
def confirm_delete(request: Request, context: ContextDep, view_id: str) -> Response:
    loss = f"Its address /v/{view_id} will stop working. What it shows is kept."
    return confirm_deletion(request, "compare", get_view(context, view_id).name, loss, "/views")


@router.post("/views/{view_id}/delete")
def delete(context: ContextDep, view_id: str) -> Response:
    delete_view(context, view_id)
    return see("/views")
