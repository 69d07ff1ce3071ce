"""Room on the disks over the API."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from app.dependencies import ContextDep
from app.routes.api.schemas.row import Row
from app.services import space

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
