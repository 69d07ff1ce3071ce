"""Disk space: what is free, and what takes it up."""

from fastapi import APIRouter, Request, Response

from app.dependencies import ContextDep
from app.services.space import measure_space
from app.templating import templates

router = APIRouter()


@router.get("/space")
def show_space(request: Request, context: ContextDep) -> Response:
    """Disks and uses as two tables."""
    return templates.TemplateResponse(request, "space.html", {"space": measure_space(context)})
