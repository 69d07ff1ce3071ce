"""Health, disk space, the samples, access tokens and activity over the API."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field

from app.db.models import AccessScope
from app.operations import health
from app.operations.health import HealthCheck
from app.operations.samples import launch_sample_encoding, launch_sample_sweep
from app.web import activity, tokens
from app.web.dependencies import TOTAL, ContextDep, PagingDep, Row
from app.web.tokens import TokenRequest

router = APIRouter(tags=["space"])


class DiskOut(Row):
    """A disk that this server writes to."""

    folder: Annotated[str, BeforeValidator(str), Field(description="The first folder on this disk that is written to.")]
    free_bytes: int
    total_bytes: int
    holds_data: Annotated[bool, Field(description="False if only temporary files are written there.")]


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
    """Free space of the server's disks, and used space by kind of data."""
    return SpaceOut.model_validate(health.measure_space(context))


samples_router = APIRouter(prefix="/samples", tags=["samples"])


class SampleOut(BaseModel):
    """A launched sample."""

    id: Annotated[str, Field(description="Id of the experiment or encoding.")]
    path: Annotated[str, Field(description="Path of the API that shows it.")]


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
    """The state of the database, and the number of live workers."""

    status: str
    workers_alive: int


@health_router.get("/health")
async def show_health(request: Request) -> Health:
    """Health check. 503 if the database does not answer within two seconds."""
    health_check: HealthCheck = request.app.state.health_check
    return Health(status="ok", workers_alive=await health_check.count_alive_workers())


access_router = APIRouter(tags=["access"])


class TokenOut(Row):
    """A named access token."""

    id: str
    name: str
    scope: AccessScope
    state: Literal["valid", "revoked", "expired"]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: Annotated[datetime | None, Field(description="To the minute.")]
    revoked_at: datetime | None


class NewTokenOut(TokenOut):
    """A new token with its secret."""

    token: Annotated[str, Field(description="The secret, which is never shown again.")]


class ActivityOut(Row):
    """A change that a request made."""

    at: datetime
    by: Annotated[str, Field(description="Name of the token, or `local user`.")]
    action: str
    subject: Annotated[str, Field(description="Path of the changed row's page.")]
    name: Annotated[str, Field(description="Name of the row at that time.")]


@access_router.get("/tokens")
def list_tokens(context: ContextDep) -> list[TokenOut]:
    """List all named tokens, newest first, including revoked and expired ones."""
    return [TokenOut.model_validate(token) for token in tokens.list_tokens(context)]


@access_router.post("/tokens", status_code=201)
def create_token(context: ContextDep, request: TokenRequest) -> NewTokenOut:
    """Create a token. Only this response contains its secret."""
    token, secret = tokens.create_token(context, request)
    return NewTokenOut(**TokenOut.model_validate(token).model_dump(), token=secret)


@access_router.delete("/tokens/{token_id}")
def revoke_token(context: ContextDep, token_id: str) -> TokenOut:
    """Revoke a token, by its id or name, and end its sessions."""
    return TokenOut.model_validate(tokens.revoke_token(context, token_id))


@access_router.get("/activity", responses=TOTAL)
def list_activity(context: ContextDep, paging: PagingDep) -> list[ActivityOut]:
    """Changes and who made them, newest first. The header `X-Total-Count` has their number."""
    rows, total = activity.list_activity(context, paging.limit, paging.offset)
    paging.set_total(total)
    return [ActivityOut.model_validate(row) for row in rows]
