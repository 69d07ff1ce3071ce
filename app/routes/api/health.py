"""Whether the service works, for load balancers and scripts."""

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy import text

from app.dependencies import ContextDep
from app.services.workers import list_workers

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The database answers, and so many workers are alive."""

    status: str
    workers_alive: int


@router.get("/health")
def show_health(context: ContextDep) -> Health:
    """Answer once the database has."""
    with context.sessions() as session:
        session.execute(text("select 1"))
    return Health(status="ok", workers_alive=sum(worker.alive for worker in list_workers(context)))
