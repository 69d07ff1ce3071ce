"""What the disks hold, and the trash."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from app.dependencies import ContextDep
from app.routes.api.common import Limit, Offset, Row
from app.routes.api.embeddings import EmbeddingSummary
from app.services import space, trash
from app.services.library import PAGE_ROWS
from app.services.trash import Purged, Trash


class TrashedOut(Row):
    """An embedding in the trash."""

    embedding: EmbeddingSummary
    frees_bytes: Annotated[int, Field(description="What purging it alone would free.")]


class TrashOut(Row):
    """A page of what is in the trash."""

    rows: list[TrashedOut]
    total: Annotated[int, Field(description="Rows on all pages.")]
    frees_bytes: Annotated[
        int, Field(description="What purging all would free; more than the sum where two need the same file.")
    ]


class PurgedOut(Row):
    """What is gone."""

    embeddings: int
    freed_bytes: int


router = APIRouter(tags=["space"])


class DiskOut(Row):
    """A disk that this server writes to."""

    folder: Annotated[str, Field(description="The first of the folders on it that are written to.")]
    free_bytes: int
    total_bytes: int
    holds_data: Annotated[bool, Field(description="Whether data stay there, not temporary files alone.")]


class UseOut(Row):
    """A kind of data."""

    kind: str
    place: str
    size_bytes: int


class SpaceOut(Row):
    """What is free and what is used."""

    disks: list[DiskOut]
    uses: list[UseOut]
    reserve_bytes: Annotated[int, Field(description="Free bytes that uploads and launches must leave on a disk.")]


@router.get("/space")
def show_space(context: ContextDep) -> SpaceOut:
    """Free space of the server's disks, and what takes up room by kind."""
    found = space.measure_space(context)
    return SpaceOut(
        disks=[DiskOut(**disk._asdict() | {"folder": str(disk.folder)}) for disk in found.disks],
        uses=[UseOut.model_validate(use) for use in found.uses],
        reserve_bytes=found.reserve_bytes,
    )


trash_router = APIRouter(prefix="/trash", tags=["trash"])


@trash_router.get("", response_model=TrashOut)
def list_trash(context: ContextDep, limit: Limit = PAGE_ROWS, offset: Offset = 0) -> Trash:
    """What is in the trash, the last put there first."""
    return trash.list_trash(context, limit, offset)


@trash_router.delete("", response_model=PurgedOut)
def empty_trash(context: ContextDep) -> Purged:
    """Delete everything in the trash for good."""
    return trash.empty_trash(context)


@trash_router.delete("/{embedding_id}", response_model=PurgedOut)
def purge_embedding(context: ContextDep, embedding_id: str) -> Purged:
    """Delete an embedding in the trash for good, and the files that nobody else needs."""
    return trash.purge_embedding(context, embedding_id)
