"""Embeddings side by side over the API."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from app.dependencies import ContextDep
from app.routes.api.schemas import EmbeddingSummary, MeasurementValue, Row, Slug
from app.services.comparison import LEAST, MOST, cautions, compare, get_compared

router = APIRouter(prefix="/compare", tags=["embeddings"])


class DifferenceOut(Row):
    """A value less that of the baseline."""

    value: float
    se: Annotated[
        float | None, Field(description="√(se² + se²) of both; null where one of them has no standard error.")
    ]
    low: Annotated[float | None, Field(description="Of the 95 % interval, value − 1.96 se.")]
    high: Annotated[float | None, Field(description="Of the 95 % interval, value + 1.96 se.")]
    excludes_zero: Annotated[bool | None, Field(description="Whether the interval does; null where there is none.")]


class ComparedOut(Row):
    """A measure; both lists are in the order of the embeddings. The baseline has no difference."""

    measure: Slug
    found: list[MeasurementValue | None]
    differences: list[DifferenceOut | None]


class ComparisonOut(Row):
    """Embeddings side by side."""

    embeddings: Annotated[list[EmbeddingSummary], Field(description="The first is the baseline.")]
    cautions: list[str]
    measures: list[ComparedOut]


@router.get("")
def show_comparison(
    context: ContextDep,
    id: Annotated[  # noqa: A002 - the name in the URL
        list[str], Query(description=f"{LEAST} to {MOST} measured embeddings; the first is the baseline.")
    ],
) -> ComparisonOut:
    """Every measure of several embeddings, and differences to the first, by standard errors of independent rows."""
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
