"""The catalogue of measures."""

from fastapi import APIRouter, Request, Response

from app.templating import templates

router = APIRouter()


@router.get("/measures")
def list_measures(request: Request) -> Response:
    """Every measure with its formula, range, pitfall and source."""
    return templates.TemplateResponse(request, "measures.html")
