"""Comparisons and alignments of embeddings over the API."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AliasPath, BaseModel, Field

from app.db.models import ResultStatus, RowsBy
from app.db.types import RowId
from app.embeddings import alignments
from app.embeddings.api.measures import MeasurementValue, MeasureSlug
from app.embeddings.comparison import (
    MAX_COMPARED,
    MIN_COMPARED,
    BaselineChoice,
    EmbeddingComparison,
    get_embeddings_to_compare,
    pair_with_baselines,
)
from app.embeddings.service import EmbeddingSummary
from app.web.dependencies import ContextDep, Limit, Offset, Row
from isoscope.files.strict import Strict
from isotropy.catalog import ALIGNMENTS


class DifferenceOut(Row):
    """A value minus that of the first embedding, or of the previous one."""

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
    """A measure of all embeddings, in their order. The first has no difference."""

    measure: MeasureSlug
    found: list[MeasurementValue | None]
    differences: list[DifferenceOut | None]


class ComparisonOut(Row):
    """Embeddings side by side."""

    embeddings: Annotated[list[EmbeddingSummary], Field(description="In the requested order.")]
    cautions: list[str]
    measures: list[ComparedOut]


router = APIRouter(prefix="/compare", tags=["embeddings"])
BaselineChoiceQuery = Annotated[
    BaselineChoice,
    Query(description="Compare each with the `first`, or with the `previous` one, as in a series of steps."),
]


@router.get("")
def show_comparison(
    context: ContextDep,
    id: Annotated[  # noqa: A002 - the name in the URL
        list[str], Query(description=f"{MIN_COMPARED} to {MAX_COMPARED} measured embeddings, in order.")
    ],
    to: BaselineChoiceQuery = BaselineChoice.FIRST,
) -> ComparisonOut:
    """Every measure of several embeddings, and differences to another, paired where both hold the same rows."""
    comparison = EmbeddingComparison(get_embeddings_to_compare(context, id))
    measures = [
        {
            "measure": compared.measure.slug,
            "found": compared.measurements,
            "differences": compared.differences if to is BaselineChoice.FIRST else compared.changes,
        }
        for compared in comparison.measures
    ]
    return ComparisonOut.model_validate(
        {"embeddings": comparison.embeddings, "cautions": comparison.cautions, "measures": measures}
    )


class AlignmentValueOut(Row):
    """One measure of two embeddings."""

    measure: Annotated[
        str, Field(validation_alias=AliasPath("measure", "slug"), description=f"One of {', '.join(ALIGNMENTS)}.")
    ]
    value: float | None
    se: Annotated[float | None, Field(description="Standard error, by leaving out blocks of rows.")]
    low: Annotated[float | None, Field(description="Lower end of the 95% interval, by Student's t over the blocks.")]
    high: Annotated[float | None, Field(description="Upper end of the 95% interval.")]
    reason: Annotated[str | None, Field(description="Why there is no value, or a value without an interval.")]


class UpgradeOut(Row):
    """What a change from the baseline's model to the other takes, by cosine and without ground truth."""

    verdict: Annotated[str, Field(description="`bridge` or `re-embed`.")]
    conclusion: str
    bridge: Annotated[str, Field(description="The map of new queries into the old space that was best.")]
    report_units: Annotated[int, Field(description="Held-out rows that were searched for.")]
    kept_old: Annotated[dict[str, float], Field(description="Share of the old model's ten nearest that it keeps.")]
    kept_new: Annotated[dict[str, float], Field(description="Share of the ten nearest after re-embedding.")]


class AlignmentOut(Row):
    """The alignment of an embedding with another of the same rows."""

    base_id: Annotated[
        str, Field(validation_alias=AliasPath("baseline", "id"), description="The embedding that it is compared with.")
    ]
    embedding_id: Annotated[str, Field(validation_alias=AliasPath("embedding", "id"))]
    rows_by: Annotated[RowsBy, Field(description="How rows were matched.")]
    status: Annotated[ResultStatus | None, Field(description="Null before the first request.")]
    error: str | None
    shared: Annotated[int | None, Field(description="Rows that both have.")]
    rows: Annotated[int | None, Field(description="Number of matched rows that were compared.")]
    values: list[AlignmentValueOut]
    upgrade: Annotated[
        UpgradeOut | None,
        Field(description="Null before it was compared, for too few rows, or between layers of one model."),
    ]


class AlignmentRequest(Strict):
    """The embeddings in order, and what each is compared with."""

    id: Annotated[list[RowId], Field(description=f"{MIN_COMPARED} to {MAX_COMPARED} measured embeddings.")]
    to: Annotated[BaselineChoice, Field(description="`first` or `previous`.")] = BaselineChoice.FIRST


@router.get("/alignments", response_model=list[AlignmentOut])
def show_alignments(
    context: ContextDep,
    id: Annotated[list[str], Query(description="Measured embeddings, in order.")],  # noqa: A002
    to: BaselineChoiceQuery = BaselineChoice.FIRST,
) -> list[alignments.AlignedPair]:
    """The similarity of embeddings of the same rows, as far as requested. Pairs without common rows are left out."""
    return alignments.find_alignments(context, pair_with_baselines(get_embeddings_to_compare(context, id), to))


@router.post("/alignments", status_code=202, response_model=list[AlignmentOut])
def post_alignments(context: ContextDep, request: AlignmentRequest) -> list[alignments.AlignedPair]:
    """Request the comparison of embeddings row by row: CKA, shared neighbors, Procrustes residual, rows that moved."""
    pairs = pair_with_baselines(get_embeddings_to_compare(context, request.id), request.to)
    return alignments.request_alignments(context, pairs)


class MovedRowOut(Row):
    """A row that both embeddings have."""

    row: Annotated[int, Field(description="Position in the file of the first embedding, from 0.")]
    other_row: Annotated[int, Field(description="Position in the file of the second embedding.")]
    name: Annotated[str, Field(description="Cut to 60 characters; empty where rows have no names.")]
    neighbors_kept: Annotated[float, Field(description="Share of its 10 nearest neighbors that are the same in both.")]
    residual: Annotated[
        float | None,
        Field(description="Distance between its two vectors after the best rotation, in typical row lengths."),
    ]


class MovedRowsOut(BaseModel):
    """How far rows move between two embeddings."""

    status: Annotated[ResultStatus | None, Field(description="Null before the alignment was requested.")]
    error: str | None
    rows_by: Annotated[RowsBy, Field(description="How rows were matched.")]
    shared: Annotated[int | None, Field(description="Rows that both have.")]
    compared: Annotated[int, Field(description="Number of compared rows, on all pages.")]
    references: Annotated[int, Field(description="Rows among which neighbors were searched.")]
    reason: Annotated[str, Field(description="Why there are no residuals, or no rows; else empty.")]
    rows: Annotated[list[MovedRowOut], Field(description="The row that moved most first.")]


@router.get("/rows")
def show_moved_rows(
    context: ContextDep,
    id: Annotated[list[str], Query(description="Two measured embeddings of the same rows.")],  # noqa: A002
    by: Annotated[alignments.MovedBy, Query(description="Fewest `neighbors` kept, or largest `residual`, first.")] = (
        alignments.MovedBy.NEIGHBORS
    ),
    limit: Limit = 100,
    offset: Offset = 0,
) -> MovedRowsOut:
    """The rows that moved most between two embeddings, once their alignment was requested."""
    first, counterpart = get_embeddings_to_compare(context, id, MIN_COMPARED)
    moved = alignments.find_moved_rows(context, first, counterpart)
    rows = moved.rows_by_movement(by)[offset : offset + limit]
    return MovedRowsOut.model_validate(
        {**moved.pair._asdict(), **moved._asdict(), "compared": len(moved.rows), "rows": rows}
    )
