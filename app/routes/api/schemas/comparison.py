"""Embeddings side by side."""

from typing import Annotated

from pydantic import Field

from app.routes.api.schemas.embeddings import EmbeddingSummary
from app.routes.api.schemas.measures import MeasurementValue, Slug
from app.routes.api.schemas.row import Row


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
