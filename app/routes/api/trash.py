"""The trash over the API."""

from fastapi import APIRouter

from app.dependencies import ContextDep
from app.routes.api.paging import Limit, Offset
from app.routes.api.schemas.trash import PurgedOut, TrashOut
from app.services import trash
from app.services.library import PAGE_ROWS
from app.services.trash import Purged, Trash

router = APIRouter(prefix="/trash", tags=["trash"])


@router.get("", response_model=TrashOut)
def list_trash(context: ContextDep, limit: Limit = PAGE_ROWS, offset: Offset = 0) -> Trash:
    """What is in the trash, the last put there first."""
    return trash.list_trash(context, limit, offset)


@router.delete("", response_model=PurgedOut)
def empty_trash(context: ContextDep) -> Purged:
    """Delete everything in the trash for good."""
    return trash.empty_trash(context)


@router.delete("/{embedding_id}", response_model=PurgedOut)
def purge_embedding(context: ContextDep, embedding_id: str) -> Purged:
    """Delete an embedding in the trash for good, and the files that nobody else needs."""
    return trash.purge_embedding(context, embedding_id)
