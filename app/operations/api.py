"""Health, disk space and the samples over the API."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from app.operations import health
from app.operations.health import Vitals
from app.operations.samples import launch_sample_encoding, launch_sample_sweep
from app.web.dependencies import ContextDep, Row

router = APIRouter(tags=["space"])


class DiskOut(Row):
    """A disk that this server writes to."""

    folder: Annotated[str, Field(description="The first of the folders on it that are written to.")]
    free_bytes: int
    total_bytes: int
    holds_data: Annotated[bool, Field(description="Whether data stay there, not temporary files alone.")]


class UseOut(Row):
    """The space that a kind of data uses."""

    kind: str
    place: str
    size_bytes: int


class SpaceOut(Row):
    """Free and used disk space."""

    disks: list[DiskOut]
    uses: list[UseOut]
    reserve_bytes: Annotated[int, Field(description="Free bytes that uploads and launches must leave on a disk.")]


@router.get("/space")
def show_space(context: ContextDep) -> SpaceOut:
    """Free space of the server's disks, and what takes up room by kind."""
    space = health.measure_space(context)
    return SpaceOut(
        disks=[DiskOut(**disk._asdict() | {"folder": str(disk.folder)}) for disk in space.disks],
        uses=[UseOut.model_validate(use) for use in space.uses],
        reserve_bytes=space.reserve_bytes,
    )


samples_router = APIRouter(prefix="/samples", tags=["samples"])


class SampleOut(BaseModel):
    """A launched sample."""

    id: Annotated[str, Field(description="Of the experiment or the encoding.")]
    path: Annotated[str, Field(description="Where the API shows it.")]


@samples_router.post("/sweep", status_code=201)
def launch_sweep(context: ContextDep) -> SampleOut:
    """Launch the sample sweep: five λ and three seeds on the bundled sentences and encoder."""
    experiment = launch_sample_sweep(context)
    return SampleOut(id=experiment.id, path=f"/api/experiments/{experiment.id}")


@samples_router.post("/embedding", status_code=201)
def launch_encoding(context: ContextDep) -> SampleOut:
    """Encode the bundled sentences with the bundled encoder, and measure two of its layers."""
    encoding = launch_sample_encoding(context)
    return SampleOut(id=encoding.id, path=f"/api/encodings/{encoding.id}")


health_router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The state of the database, and the number of workers alive."""

    status: str
    workers_alive: int


@health_router.get("/health")
async def show_health(request: Request) -> Health:
    """The health, or 503 if the database does not answer within two seconds."""
    vitals: Vitals = request.app.state.vitals
    return Health(status="ok", workers_alive=await vitals.count_alive_workers())
