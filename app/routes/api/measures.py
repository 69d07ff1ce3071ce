"""The catalogue of measures over the API."""

from fastapi import APIRouter

from app.routes.api.schemas.measures import MeasureOut
from isotropy.catalog import MEASURES, Measure

router = APIRouter(prefix="/measures", tags=["measures"])


@router.get("", response_model=list[MeasureOut])
def list_measures() -> list[Measure]:
    """Every measure with its formula, range, pitfall and source, in the order in which reports show them."""
    return list(MEASURES.values())
