"""Embeddings side by side over the API, and how alike those of the same rows are."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from app.db.models import ResultStatus, RowsBy
from app.db.types import RowId
from app.embeddings.alignments import Aligned, alignments_of, request_alignments
from app.embeddings.api.embeddings import EmbeddingSummary
from app.embeddings.api.measures import MeasurementValue, Slug
from app.embeddings.comparison import LEAST, MOST, cautions, compare, get_compared
from app.web.dependencies import ContextDep, Row
from isotropy.catalog import ALIGNMENTS


class DifferenceOut(Row):
    """A value less that of the baseline."""

    value: float
    se: Annotated[float | None, Field(description="Standard error; null where there is no interval.")]
    low: Annotated[float | None, Field(description="Lower end of the 95% interval, by Student's t over the blocks.")]
    high: Annotated[float | None, Field(description="Upper end of the 95% interval.")]
    excludes_zero: Annotated[
        bool | None, Field(description="Whether the interval excludes 0; null without an interval.")
    ]
    paired: Annotated[bool, Field(description="Whether the difference is paired by row.")]
    n: Annotated[
        int | None,
        Field(description="Rows of each that the difference was computed from, if fewer than all; else null."),
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


class AlignmentValueOut(BaseModel):
    """One measure of two embeddings."""

    measure: Annotated[str, Field(description=f"One of {', '.join(ALIGNMENTS)}.")]
    value: float | None
    se: Annotated[float | None, Field(description="Standard error, by leaving out blocks of rows.")]
    low: Annotated[float | None, Field(description="Lower end of the 95% interval, by Student's t over the blocks.")]
    high: Annotated[float | None, Field(description="Upper end of the 95% interval.")]
    reason: Annotated[str | None, Field(description="Why there is no value.")]


class AlignmentOut(BaseModel):
    """An embedding beside the baseline."""

    embedding_id: str
    rows_by: Annotated[RowsBy, Field(description="How rows were matched.")]
    status: Annotated[ResultStatus | None, Field(description="Null if nobody has asked for it yet.")]
    error: str | None
    shared: Annotated[int | None, Field(description="Rows that both have.")]
    rows: Annotated[int | None, Field(description="Number of matched rows that were compared.")]
    values: list[AlignmentValueOut]


class AlignmentRequest(BaseModel):
    """The embeddings, the baseline first."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[list[RowId], Field(description=f"{LEAST} to {MOST} measured embeddings.")]


@router.get("/alignments")
def show_alignments(
    context: ContextDep,
    id: Annotated[list[str], Query(description="Measured embeddings; the first is the baseline.")],  # noqa: A002
) -> list[AlignmentOut]:
    """How alike embeddings of the same rows are, as far as it was asked for; without those that share no rows."""
    return _told(alignments_of(context, get_compared(context, id)))


@router.post("/alignments", status_code=202)
def post_alignments(context: ContextDep, request: AlignmentRequest) -> list[AlignmentOut]:
    """Have embeddings compared row by row with the first: CKA, shared neighbors, Procrustes residual."""
    return _told(request_alignments(context, get_compared(context, request.id)))


def _told(found: Sequence[Aligned]) -> list[AlignmentOut]:
    return [
        AlignmentOut(
            embedding_id=one.embedding.id,
            rows_by=one.rows_by,
            status=one.status,
            error=one.error,
            shared=one.shared,
            rows=one.rows,
            values=[AlignmentValueOut(**value._asdict() | {"measure": value.measure.slug}) for value in one.values],
        )
        for one in found
    ]
