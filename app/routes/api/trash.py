"""The trash over the API."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from app.dependencies import ContextDep
from app.routes.api.schemas import EmbeddingSummary, Row
from app.services import trash
from app.services.trash import Purged, Trash

router = APIRouter(prefix="/trash", tags=["trash"])


class TrashedOut(Row):
    """An embedding in the trash."""

    embedding: EmbeddingSummary
    frees_bytes: Annotated[int, Field(description="What purging it alone would free.")]


class TrashOut(Row):
    """All that is in the trash."""

    rows: list[TrashedOut]
    frees_bytes: Annotated[
        int, Field(description="What purging all would free; more than the sum where two need the same file.")
    ]


class PurgedOut(Row):
    """What is gone."""

    embeddings: int
    freed_bytes: int


@router.get("", response_model=TrashOut)
def list_trash(context: ContextDep) -> Trash:
    """What is in the trash, the last put there first."""
    return trash.list_trash(context)


@router.delete("", response_model=PurgedOut)
def empty_trash(context: ContextDep) -> Purged:
    """Delete everything in the trash for good."""
    return trash.empty_trash(context)


@router.delete("/{embedding_id}", response_model=PurgedOut)
def purge_embedding(context: ContextDep, embedding_id: str) -> Purged:
    """Delete an embedding in the trash for good, and the files that nobody else needs."""
    return trash.purge_embedding(context, embedding_id)
