"""The catalogue of measures."""

from fastapi import APIRouter, Request, Response

from app.templating import templates
from isotropy.catalog import GROUPS, measures_of

router = APIRouter()


@router.get("/measures")
def list_measures(request: Request) -> Response:
    """Every measure by group, with its formula, range, pitfall and source."""
    groups = [(group, heading, measures) for group, heading in GROUPS.items() if (measures := measures_of(group))]
    return templates.TemplateResponse(request, "measures.html", {"groups": groups})
