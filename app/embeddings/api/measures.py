"""The catalog of measures, and what was measured."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, WithJsonSchema

from app.db.models import MeasurementStatus
from app.web.dependencies import Row
from isotropy.catalog import MEASURES, Compared, Error, Group, Measure, Place


class EffectOut(BaseModel):
    """What a measure is, and what it would be if the finding were mended; null where undefined or unknown."""

    measure: str
    before: float | None
    before_se: float | None
    after: float | None
    after_se: float | None


class FindingOut(BaseModel):
    """Something wrong with an embedding."""

    slug: str
    severity: Annotated[
        Literal["note", "warning", "error"], Field(description="A warning changes the scores; a note does not.")
    ]
    title: str
    evidence: str
    rows: Annotated[list[int], Field(description="Rows of the file, from 0; the first 100.")]
    row_count: Annotated[int, Field(description="Total number of rows.")]
    names: Annotated[list[str] | None, Field(description="The names of `rows`; null where rows have none.")]
    dimensions: Annotated[list[int], Field(description="Dimensions, from 0; the first 100.")] = []
    dimension_count: Annotated[int, Field(description="Total number of dimensions.")] = 0
    dimension_names: Annotated[
        list[str] | None, Field(description="The names of `dimensions`; null where dimensions have none.")
    ] = None
    effect: EffectOut
    advice: str


class MeasureOut(Row):
    """A measure of the catalog, in its words."""

    slug: str
    group: Group
    name: str
    symbol: str
    value: Annotated[
        str,
        Field(description="Which of its values the report shows, if it has several values or settings; else empty."),
    ]
    whole: Annotated[bool, Field(description="Whether that number is a count.")]
    range: str
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]
    error: Annotated[
        Error,
        Field(
            description="What the standard error describes: the error of an estimate of the population's value, or the "
            "spread between samples of this size, which does not cover the bias. Or none."
        ),
    ]
    bias: Annotated[str, Field(description="How the number of rows biases the value; else empty.")]
    corrected: Annotated[
        str, Field(description="Slug of the corrected form, to read where the rows are a sample; else empty.")
    ]
    compared: Annotated[Compared, Field(description="Which embeddings can be compared with an interval.")]
    shown_in: Annotated[list[Place], Field(description="Where it is shown besides the table of all measures.")]


Slug = Annotated[
    str,
    WithJsonSchema(
        {
            "description": "Slug of a measure of `/api/measures`. Another version may have measured others.",
            "anyOf": [{"type": "string", "enum": list(MEASURES)}, {"type": "string"}],
        }
    ),
]


class MeasurementValue(Row):
    """A value, or why there is none."""

    status: MeasurementStatus
    value: float | None
    se: Annotated[float | None, Field(description="Standard error of the value, where one is known.")]
    low: Annotated[
        float | None,
        Field(description="Lower end of the 95% interval of the population's value, where the measure estimates that."),
    ]
    high: Annotated[float | None, Field(description="Upper end of that interval.")]
    reason: str | None
    n: int


class MeasurementSummary(MeasurementValue):
    """One measure of an embedding, as a number."""

    measure: Slug


class MeasurementOut(MeasurementSummary):
    """One measure of an embedding."""

    detail: dict[str, Any] | None


router = APIRouter(prefix="/measures", tags=["measures"])


@router.get("", response_model=list[MeasureOut])
def list_measures() -> list[Measure]:
    """Every measure with its formula, range, pitfall and source, in the order in which reports show them."""
    return list(MEASURES.values())
