"""Whether the service works, for load balancers and scripts."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from app.vitals import Vitals

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The database answers, and so many workers are alive."""

    status: str
    workers_alive: int


@router.get("/health")
async def show_health(request: Request) -> Health:
    """Answer once the database has, or with 503 within two seconds."""
    vitals: Vitals = request.app.state.vitals
    return Health(status="ok", workers_alive=await vitals.workers_alive())
