"""Embeddings side by side over the API."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from app.embeddings.api.embeddings import EmbeddingSummary
from app.embeddings.api.measures import MeasurementValue, Slug
from app.embeddings.comparison import LEAST, MOST, cautions, compare, get_compared
from app.web.dependencies import ContextDep, Row


class DifferenceOut(Row):
    """A value less that of the baseline."""

    value: float
    se: Annotated[float | None, Field(description="Standard error; null where there is no interval.")]
    low: Annotated[float | None, Field(description="Lower end of the 95% interval, by Student's t over the blocks.")]
    high: Annotated[float | None, Field(description="Upper end of the 95% interval.")]
    excludes_zero: Annotated[bool | None, Field(description="Whether the interval does; null where there is none.")]
    paired: Annotated[bool, Field(description="Whether the error is that of the same rows in both.")]
    n: Annotated[
        int | None,
        Field(description="Rows of either that the difference was taken from, where fewer than all; else null."),
    ]
    reason: Annotated[str, Field(description="Why there is no interval; else empty.")]


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
