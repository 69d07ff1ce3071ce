"""Embeddings side by side."""

from typing import Annotated

from pydantic import Field

from app.routes.api.schemas.embeddings import EmbeddingSummary
from app.routes.api.schemas.measures import MeasurementValue, Slug
from app.routes.api.schemas.row import Row


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
