"""The trash: put embeddings there, take them out, delete them for good."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response

from app import numerals
from app.dependencies import ContextDep
from app.errors import NotFoundError
from app.routes.pages.answers import see
from app.services.trash import Purged, empty_trash, list_trash, purge_embedding, restore_embedding, trash_embedding
from app.templating import templates

router = APIRouter()

MAX_SHOWN = 2**63 - 1


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
def show_trash(
    request: Request,
    context: ContextDep,
    purged: Annotated[int, Query(ge=0, le=MAX_SHOWN)] = 0,
    freed: Annotated[int, Query(ge=0, le=MAX_SHOWN)] = 0,
) -> Response:
    """What is in the trash, and what was just deleted for good."""
    shown = {"trash": list_trash(context), "purged": Purged(purged, freed)}
    return templates.TemplateResponse(request, "trash.html", shown)


@router.get("/trash/purge")
def confirm_emptying(request: Request, context: ContextDep) -> Response:
    """Ask before deleting all of it."""
    trash = list_trash(context)
    if not trash.rows:
        raise NotFoundError("The trash is empty. There is nothing to delete.")
    return _confirm(request, numerals.plural(len(trash.rows), "embedding"), trash.frees_bytes)


@router.post("/trash/purge")
def empty(context: ContextDep) -> Response:
    """Delete all of it for good."""
    return _tell(empty_trash(context))


@router.get("/trash/{embedding_id}/purge")
def confirm_purge(request: Request, context: ContextDep, embedding_id: str) -> Response:
    """Ask before deleting one."""
    row = next((row for row in list_trash(context).rows if row.embedding.id == embedding_id), None)
    if row is None:
        raise NotFoundError(f"There is no embedding {embedding_id!r} in the trash. Only what is there can be purged.")
    return _confirm(request, row.embedding.name, row.frees_bytes)


@router.post("/trash/{embedding_id}/purge")
def purge(context: ContextDep, embedding_id: str) -> Response:
    """Delete one for good."""
    return _tell(purge_embedding(context, embedding_id))


def _confirm(request: Request, name: str, frees_bytes: int) -> Response:
    frees = f"{numerals.size(frees_bytes)} of the storage are freed"
    shared = "no bytes of the storage are freed, because others need the same files"
    shown = {
        "section": "data",
        "name": name,
        "loss": f"Measurements, curves, figures, tags and notes go, and {frees if frees_bytes else shared}.",
        "back": "/trash",
    }
    return templates.TemplateResponse(request, "confirm_delete.html", shown)


def _tell(purged: Purged) -> Response:
    return see(f"/trash?{urlencode({'purged': purged.embeddings, 'freed': purged.freed_bytes})}")
