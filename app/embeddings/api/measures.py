"""The catalog of measures, and results of an embedding: findings, data of figures, curves, neighbors."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, WithJsonSchema

from app.db.models import Lookup, MeasurementStatus, ResultStatus, ZetaCurve
from app.db.types import RowId
from app.embeddings import lookups, service, zeta_curves
from app.embeddings.figures.sample_size import ZETAS, ZetaLine
from app.embeddings.point_map import get_map
from app.embeddings.report import EmbeddingFinding
from app.web.dependencies import ContextDep, Row
from isoscope.core.errors import InvalidError, NotFoundError
from isoscope.files.strict import Strict
from isotropy.catalog import MEASURES, Comparability, ErrorKind, Measure, MeasureGroup, MeasurePage


class MeasureOut(Row):
    """A measure of the catalog."""

    slug: str
    group: MeasureGroup
    name: str
    symbol: str
    value: Annotated[
        str,
        Field(description="Which of its values the report shows, if it has several values or settings; else empty."),
    ]
    is_count: Annotated[bool, Field(serialization_alias="whole", description="Whether that number is a count.")]
    range: str
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]
    error: Annotated[
        ErrorKind,
        Field(
            description="What the standard error describes: the error of an estimate of the population's value, or the "
            "spread between samples of this size, which does not cover the bias. Or none."
        ),
    ]
    bias: Annotated[str, Field(description="How the number of rows biases the value; else empty.")]
    corrected: Annotated[
        str, Field(description="Slug of the corrected form, to read where the rows are a sample; else empty.")
    ]
    compared: Annotated[Comparability, Field(description="Which embeddings can be compared with an interval.")]
    shown_in: Annotated[list[MeasurePage], Field(description="Where it is shown besides the table of all measures.")]


MeasureSlug = Annotated[
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

    measure: MeasureSlug


class MeasurementOut(MeasurementSummary):
    """One measure of an embedding."""

    detail: dict[str, Any] | None


router = APIRouter(prefix="/measures", tags=["measures"])


@router.get("", response_model=list[MeasureOut])
def list_measures() -> list[Measure]:
    """Every measure with its formula, range, pitfall and source, in the order in which reports show them."""
    return list(MEASURES.values())


FigureDataSlug = Literal["sample_size", "projection", "map"]


class ZetaCurveOut(BaseModel):
    """A shrinkage-zeta curve."""

    source: str
    source_id: str | None
    status: ResultStatus
    error: str | None
    seed: int
    zetas: list[float]
    lines: list[ZetaLine]


class LookupOut(Row):
    """The nearest neighbors of a row or a text among all rows; results are null until there are any."""

    name: Annotated[str, Field(description="The requested name or text.")]
    status: ResultStatus
    error: str | None
    results: dict[str, Any] | None


class LookupRequest(Strict):
    """A text to find the nearest rows of."""

    text: Annotated[str, Field(description="Encoded as the rows were, by the same model.")]


class ZetaCurveRequest(Strict):
    """The embedding whose covariance to shrink toward."""

    source_id: RowId


readings_router = APIRouter(prefix="/embeddings/{embedding_id}", tags=["embeddings"])


@readings_router.get("/figure-data/{slug}")
def show_figure_data(context: ContextDep, embedding_id: str, slug: FigureDataSlug) -> dict[str, Any]:
    """The data of a figure that belong to no measure: scores by number of rows, projection, map or neighbors."""
    return service.get_stored_figure(context, embedding_id, slug)


@readings_router.get("/findings", response_model=list[EmbeddingFinding])
def show_findings(context: ContextDep, embedding_id: str) -> list[dict[str, Any]]:
    """Findings of an embedding: errors, warnings by their effect, notes; empty before it is measured."""
    return service.get_embedding(context, embedding_id).findings


@readings_router.get("/curves/zeta")
def show_zeta_curve(
    context: ContextDep,
    embedding_id: str,
    source: Literal["identity", "sample", "embedding"] = "identity",
    source_id: str | None = None,
    rows: int | None = None,
) -> ZetaCurveOut:
    """IsoScore* at 101 values of zeta, a line for each number of rows, or for `rows` alone."""
    return _serialize_curve(zeta_curves.get_zeta_curve(context, embedding_id, source, source_id), rows)


@readings_router.post("/curves/zeta", status_code=202)
def request_zeta_curve(context: ContextDep, embedding_id: str, request: ZetaCurveRequest) -> ZetaCurveOut:
    """Request the curve with another embedding's covariance."""
    return _serialize_curve(zeta_curves.request_zeta_curve(context, embedding_id, request.source_id))


@readings_router.get("/neighbors", response_model=LookupOut)
def show_neighbors(
    context: ContextDep, embedding_id: str, name: str | None = None, text: str | None = None
) -> Lookup | LookupOut:
    """The nearest rows to the row of a name, at once, or to a text that was looked up."""
    if (name is None) == (text is None):
        raise InvalidError("Give either the name of a row or a text.", "name")
    if text is not None:
        return lookups.get_lookup(context, embedding_id, text)
    stored_map = get_map(context, embedding_id)
    if (point := stored_map.find_named_point(name or "")) is None:
        raise NotFoundError(f"No row is named {name!r}.")
    search = stored_map.find_neighbors(point, name or "", [])
    if not search.near:
        return LookupOut(name=search.query, status=ResultStatus.FAILED, error=search.reason, results=None)
    neighbors = [
        {"name": row.name, search.similarity.value: nearness, "row": row.position, "details": dict(row.details)}
        for row, nearness in search.near
    ]
    return LookupOut(
        name=search.query,
        status=ResultStatus.READY,
        error=None,
        results={
            "k": len(neighbors),
            "similarity": search.similarity.value,
            "rows": search.n_searched,
            "row": search.row and search.row.position,
            "of": [{"name": search.query, "before": neighbors, "after": []}],
        },
    )


@readings_router.post("/neighbors", status_code=202, response_model=LookupOut)
def request_lookup(context: ContextDep, embedding_id: str, request: LookupRequest) -> Lookup:
    """Look up a text: a worker encodes it and finds the nearest rows among all."""
    return lookups.request_lookup(context, embedding_id, request.text)


def _serialize_curve(curve: ZetaCurve, rows: int | None = None) -> ZetaCurveOut:
    """Return a curve with only the line for ``rows`` rows, or with all lines for None."""
    lines = [ZetaLine.model_validate(line) for line in curve.lines or []]
    return ZetaCurveOut(
        source=curve.source,
        source_id=curve.source_id,
        status=curve.status,
        error=curve.error,
        seed=curve.seed,
        zetas=ZETAS,
        lines=[line for line in lines if rows in (None, line.rows)],
    )
