"""The trash over the API."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from app.context import PAGE_ROWS
from app.embeddings import trash
from app.embeddings.api.embeddings import EmbeddingSummary
from app.embeddings.trash import Purged, Trash
from app.web.dependencies import ContextDep, Limit, Offset, Row


class TrashedOut(Row):
    """An embedding in the trash."""

    embedding: EmbeddingSummary
    frees_bytes: Annotated[int, Field(description="Bytes that deleting it alone would free.")]


class TrashOut(Row):
    """A page of what is in the trash."""

    rows: list[TrashedOut]
    total: Annotated[int, Field(description="Rows on all pages.")]
    frees_bytes: Annotated[
        int, Field(description="Bytes that deleting all would free. More than the sum if two share a file.")
    ]


class PurgedOut(Row):
    """What is gone."""

    embeddings: int
    freed_bytes: int


trash_router = APIRouter(prefix="/trash", tags=["trash"])


@trash_router.get("", response_model=TrashOut)
def list_trash(context: ContextDep, limit: Limit = PAGE_ROWS, offset: Offset = 0) -> Trash:
    """What is in the trash, the last put there first."""
    return trash.list_trash(context, limit, offset)


@trash_router.delete("", response_model=PurgedOut)
def empty_trash(context: ContextDep) -> Purged:
    """Delete everything in the trash for good, with the tasks that use it."""
    return trash.empty_trash(context)


@trash_router.delete("/{embedding_id}", response_model=PurgedOut)
def purge_embedding(context: ContextDep, embedding_id: str) -> Purged:
    """Delete an embedding in the trash for good, the tasks that use it, and the files that nobody else needs."""
    return trash.purge_embedding(context, embedding_id)
