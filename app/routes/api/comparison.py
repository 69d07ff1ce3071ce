"""Embeddings side by side over the API."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.dependencies import ContextDep
from app.routes.api.schemas.comparison import ComparedOut, ComparisonOut, DifferenceOut
from app.routes.api.schemas.embeddings import EmbeddingSummary
from app.routes.api.schemas.measures import MeasurementValue
from app.services.comparison import LEAST, MOST, cautions, compare, get_compared

router = APIRouter(prefix="/compare", tags=["embeddings"])


@router.get("")
def show_comparison(
    context: ContextDep,
    id: Annotated[  # noqa: A002 - the name in the URL
        list[str], Query(description=f"{LEAST} to {MOST} measured embeddings; the first is the baseline.")
    ],
) -> ComparisonOut:
    """Every measure of several embeddings, and differences to the first, paired where both hold the same rows."""
    embeddings = get_compared(context, id)
    return ComparisonOut(
        embeddings=[EmbeddingSummary.model_validate(one) for one in embeddings],
        cautions=cautions(embeddings),
        measures=[
            ComparedOut(
                measure=row.measure.slug,
                found=[one and MeasurementValue.model_validate(one) for one in row.found],
                differences=[one and DifferenceOut.model_validate(one) for one in row.differences],
            )
            for row in compare(embeddings)
        ],
    )
