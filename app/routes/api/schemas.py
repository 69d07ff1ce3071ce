"""What the API answers with, read off the rows. NaN does not occur: a missing number is null with its reason."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.db.config import Regularizer
from app.db.encoding import EncodingConfig
from app.db.models import (
    DatasetOrigin,
    EmbeddingOrigin,
    EmbeddingStatus,
    EmbeddingTag,
    EncodingStatus,
    FileRole,
    MeasurementStatus,
    Phase,
    Pooling,
    ResultStatus,
    RunStatus,
)
from app.db.types import RowId
from isotropy.catalog import MEASURES, METHODS, Group


class Row(BaseModel):
    """Base of all answers made from a row."""

    model_config = ConfigDict(from_attributes=True)


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


def _words(tags: list[EmbeddingTag | str]) -> list[str]:
    return [tag if isinstance(tag, str) else tag.tag for tag in tags]


Tags = Annotated[list[str], BeforeValidator(_words, json_schema_input_type=list[str])]


class EmbeddingSummary(Row):
    """An embedding in a list."""

    id: str
    name: str
    tags: Tags
    filename: str
    format: str
    origin: EmbeddingOrigin
    status: EmbeddingStatus
    error: str | None
    n: int | None
    d: int | None
    n_left_out: int | None
    created_at: datetime
    measured_at: datetime | None
    trashed_at: Annotated[datetime | None, Field(description="When it was put into the trash; null where it was not.")]


class FileOut(Row):
    """A file of an embedding; the rows of the vectors follow one another in this order."""

    role: FileRole
    filename: str
    file_sha256: str
    size_bytes: int


class EmbeddingOut(EmbeddingSummary):
    """An embedding with what was found in its files and what was measured."""

    notes: str
    files: list[FileOut]
    inspection: dict[str, Any] | None
    selection: dict[str, Any] | None
    measurements: list[MeasurementOut]


FigureDataSlug = Literal["sample_size", "projection", "neighbours"]


class EmbeddingChange(BaseModel):
    """What a user says of an embedding; what is null or absent stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str | None, Field(description="Of 1 to 200 characters.")] = None
    notes: Annotated[str | None, Field(description="Plain text of at most 10,000 characters.")] = None
    tags: Annotated[
        list[str] | None,
        Field(description="All its tags: at most 20 of at most 40 characters, no comma, case kept but never told by."),
    ] = None


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


class PlaygroundOut(BaseModel):
    """A cloud of the playground and what was measured of it, by slug of `/api/measures`."""

    shape: str
    spread: float
    shift: float
    n: int
    measures: dict[str, float]


class PlaygroundShape(BaseModel):
    """A shape of the playground."""

    slug: str
    name: str
    spread: Annotated[str, Field(description="What its spread, from 0 to 1, is.")]


class PlaygroundGrid(BaseModel):
    """The values that each coordinate of a position may have."""

    shapes: list[PlaygroundShape]
    spread: list[float]
    shift: Annotated[list[float], Field(description="Distance of the mean from the origin.")]
    n: list[int]


class PostProcessingRequest(BaseModel):
    """A method with its parameters; those left out take their defaults."""

    model_config = ConfigDict(extra="forbid")

    method: Annotated[str, WithJsonSchema({"type": "string", "enum": list(METHODS)})]
    parameters: Annotated[
        dict[str, int | float],
        Field(description="By the names of the catalogue, such as `eps` of `soft_zca` or `D` of `all_but_the_top`."),
    ] = {}


class PostProcessingSummary(Row):
    """A trial in a list."""

    id: str
    method: str
    parameters: dict[str, int | float]
    status: ResultStatus
    error: str | None
    created_at: datetime


class PostProcessingOut(PostProcessingSummary):
    """A trial with what was found of the rows held out, before and after, and in sample of the rows fitted on."""

    results: dict[str, Any] | None


class MakeRequest(BaseModel):
    """What to call the new embedding; by default after its source and the method."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str | None, Field(max_length=200)] = None


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
