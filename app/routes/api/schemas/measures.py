"""Measures of the catalogue, and what was found by them."""

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from app.db.models import MeasurementStatus
from app.routes.api.schemas.row import Row
from isotropy.catalog import MEASURES, Group


class MeasureOut(Row):
    """A measure of the catalogue, in its words."""

    slug: str
    group: Group
    name: str
    symbol: str
    value: Annotated[
        str,
        Field(
            description="Which number it is in a report, where a measure is more than one or has settings; else empty."
        ),
    ]
    whole: Annotated[bool, Field(description="Whether that number counts something.")]
    range: str
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]


Slug = Annotated[
    str,
    WithJsonSchema(
        {
            "description": "A slug of `/api/measures`; an embedding that another version measured may have others.",
            "anyOf": [{"type": "string", "enum": list(MEASURES)}, {"type": "string"}],
        }
    ),
]


class MeasurementValue(Row):
    """A value, or why there is none."""

    status: MeasurementStatus
    value: float | None
    se: Annotated[float | None, Field(description="Standard error of the value, where one is known.")]
    reason: str | None
    n: int


class MeasurementSummary(MeasurementValue):
    """One measure of an embedding, as a number."""

    measure: Slug


class MeasurementOut(MeasurementSummary):
    """One measure of an embedding."""

    detail: dict[str, Any] | None
