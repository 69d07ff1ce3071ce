"""What the API answers with, read off the rows. NaN does not occur: a missing number is null with its reason."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.db.config import Regularizer
from app.db.encoding import EncodingConfig
from app.db.models import (
    DatasetOrigin,
    EmbeddingStatus,
    EncodingStatus,
    FileRole,
    MeasurementStatus,
    Phase,
    Pooling,
    ResultStatus,
    RunStatus,
)
from app.db.types import RowId
from isotropy.catalog import MEASURES, Group


class Row(BaseModel):
    """Base of all answers made from a row."""

    model_config = ConfigDict(from_attributes=True)


class MeasureOut(Row):
    """A measure of the catalogue, in its words."""

    slug: str
    group: Group
    name: str
    symbol: str
    value: Annotated[str, Field(description="Which number stands for a measure that is more than one; else empty.")]
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


class MeasurementSummary(Row):
    """One measure of an embedding, as a number."""

    measure: Slug
    status: MeasurementStatus
    value: float | None
    se: Annotated[float | None, Field(description="Standard error of the value, where one is known.")]
    reason: str | None
    n: int


class MeasurementOut(MeasurementSummary):
    """One measure of an embedding."""

    detail: dict[str, Any] | None


class EmbeddingSummary(Row):
    """An embedding in a list."""

    id: str
    name: str
    filename: str
    format: str
    status: EmbeddingStatus
    error: str | None
    n: int | None
    d: int | None
    n_left_out: int | None
    created_at: datetime
    measured_at: datetime | None


class FileOut(Row):
    """A file of an embedding; the rows of the vectors follow one another in this order."""

    role: FileRole
    filename: str
    file_sha256: str
    size_bytes: int


class EmbeddingOut(EmbeddingSummary):
    """An embedding with what was found in its files and what was measured."""

    files: list[FileOut]
    inspection: dict[str, Any] | None
    selection: dict[str, Any] | None
    measurements: list[MeasurementOut]


class ZetaLine(BaseModel):
    """IsoScore* of ``rows`` rows at each zeta of the curve; null where undefined."""

    rows: int
    values: list[float | None] | None
    reason: str | None = None


class ZetaCurveOut(BaseModel):
    """A shrinkage-zeta curve."""

    source: str
    source_id: str | None
    status: ResultStatus
    error: str | None
    seed: int
    zetas: list[float]
    lines: list[ZetaLine]


class ZetaCurveRequest(BaseModel):
    """The embedding whose covariance to shrink towards."""

    model_config = ConfigDict(extra="forbid")

    source_id: RowId


class DatasetOut(Row):
    """A data set and its columns."""

    id: str
    name: str
    origin: DatasetOrigin
    train_filename: str | None
    validation_filename: str | None
    n_train: int | None
    n_validation: int | None
    columns: list[Any]
    created_at: datetime


class RunSummary(Row):
    """A run in its experiment."""

    id: str
    regularizer: Regularizer
    lam: float
    zeta: float
    seed: int
    status: RunStatus
    phase: Phase | None
    phase_done: int
    phase_total: int | None
    worker: str | None
    error: str | None
    performance: float | None
    isoscore_star: float | None
    isoscore_star_reason: str | None
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class StepOut(Row):
    """What was logged at one optimizer step."""

    step: int
    task_loss: float | None
    penalty: float | None
    layers: list[Any] | None


class RunOut(RunSummary):
    """A run with all that is needed to repeat it and all that was logged."""

    experiment_id: str
    config: dict[str, Any]
    results: dict[str, Any] | None
    environment: dict[str, Any] | None
    steps: list[StepOut]


class ExperimentOut(Row):
    """An experiment and its runs."""

    id: str
    name: str
    dataset_id: str
    config: dict[str, Any]
    created_at: datetime
    status: RunStatus
    runs: list[RunSummary]


class EncodingOut(Row):
    """Texts, the model they go through, and how far they are."""

    id: str
    name: str
    filename: str
    n_texts: int
    columns: list[Any]
    config: Annotated[EncodingConfig | None, Field(description="Null for a draft.")]
    status: EncodingStatus
    done: Annotated[int, Field(description="Texts encoded so far.")]
    total: Annotated[int | None, Field(description="Texts to be encoded; null until they have been read.")]
    error: str | None
    environment: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class EncodingPlanOut(Row):
    """What a configuration would make; null where it is known only when a model of the Hub has been fetched."""

    rows: Annotated[int, Field(description="Texts at most; those that are empty are left out.")]
    layers: int | None
    embeddings: int | None
    dimensions: int | None
    size_bytes: Annotated[int | None, Field(description="Of all vectors, on the disk.")]
    model_layers: int | None


class LayerOut(Row):
    """A layer of an encoding under a pooling."""

    layer: Annotated[int, Field(description="0 is the embedding layer.")]
    pooling: Pooling
    embedding_id: Annotated[str, Field(validation_alias="id")]
    status: EmbeddingStatus
    n: int | None
    d: int | None
    measurements: list[MeasurementSummary]
