"""The trash: put embeddings there, take them out, delete them for good."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response

from app.dependencies import ContextDep
from app.routes.responses import see
from app.services.library import offset_of, pages_of
from app.services.trash import (
    empty_trash,
    get_trashed,
    list_trash,
    purge_embedding,
    restore_embedding,
    trash_embedding,
)
from app.templating import templates
from isoscope.core import formatting
from isoscope.core.errors import NotFoundError

router = APIRouter()


@router.post("/embeddings/{embedding_id}/trash")
def put_into_trash(context: ContextDep, embedding_id: str) -> Response:
    """Put it into the trash, and offer to take it out again."""
    return see(f"/embeddings?{urlencode({'moved': trash_embedding(context, embedding_id).id})}")


@router.post("/embeddings/{embedding_id}/restore")
def restore(context: ContextDep, embedding_id: str, back: Annotated[str, Form()] = "") -> Response:
    """Take it out of the trash."""
    embedding = restore_embedding(context, embedding_id)
    return see("/trash" if back == "trash" else f"/embeddings/{embedding.id}")


@router.get("/trash")
def show_trash(request: Request, context: ContextDep, page: Annotated[int, Query(ge=1)] = 1) -> Response:
    """What is in the trash, the last page where there is none of that number."""
    trash = list_trash(context, offset=offset_of(page))
    pages = pages_of(trash.total)
    if page > pages:
        return see(f"/trash?page={pages}")
    return templates.TemplateResponse(request, "trash.html", {"trash": trash, "page": page, "pages": pages})


@router.get("/trash/purge")
def confirm_emptying(request: Request, context: ContextDep) -> Response:
    """Ask before deleting all of it."""
    trash = list_trash(context, limit=0)
    if not trash.total:
        raise NotFoundError("The trash is empty. There is nothing to delete.")
    return _confirm(request, formatting.plural(trash.total, "embedding"), trash.frees_bytes)


@router.post("/trash/purge")
def empty(context: ContextDep) -> Response:
    """Delete all of it for good."""
    empty_trash(context)
    return see("/trash")


@router.get("/trash/{embedding_id}/purge")
def confirm_purge(request: Request, context: ContextDep, embedding_id: str) -> Response:
    """Ask before deleting one."""
    row = get_trashed(context, embedding_id)
    return _confirm(request, row.embedding.name, row.frees_bytes)


@router.post("/trash/{embedding_id}/purge")
def purge(context: ContextDep, embedding_id: str) -> Response:
    """Delete one for good."""
    purge_embedding(context, embedding_id)
    return see("/trash")


def _confirm(request: Request, name: str, frees_bytes: int) -> Response:
    frees = f"{formatting.size(frees_bytes)} of the storage are freed"
    shared = "no bytes of the storage are freed, because others need the same files"
    shown = {
        "section": "data",
        "name": name,
        "loss": f"Measurements, curves, figures, tags and notes go, and {frees if frees_bytes else shared}.",
        "back": "/trash",
    }
    return templates.TemplateResponse(request, "confirm_delete.html", shown)
