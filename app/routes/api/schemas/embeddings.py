"""Embeddings, their figures' data and their curves."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.db.models import EmbeddingOrigin, EmbeddingStatus, EmbeddingTag, FileRole, Pooling, ResultStatus
from app.db.types import RowId
from app.routes.api.schemas.measures import FindingOut, MeasurementOut
from app.routes.api.schemas.row import Row


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


class EmbeddingListed(EmbeddingSummary):
    """An embedding in the library, with the numbers that it can be sorted by."""

    isoscore_unbiased: Annotated[float | None, Field(description="Bias-corrected: of the population.")]
    isoscore: Annotated[float | None, Field(description="Of these rows: low unless n is many times d.")]
    mean_cosine: float | None


class FileOut(Row):
    """A file of an embedding; the rows of the vectors follow one another in this order."""

    role: FileRole
    filename: str
    file_sha256: str
    size_bytes: int


class EmbeddingOut(EmbeddingSummary):
    """An embedding with what was found in its files and what was measured."""

    notes: str
    provenance: Annotated[
        dict[str, Any] | None,
        Field(description="How it was made here, in words and numbers that repeat it; null for an upload."),
    ]
    source_id: Annotated[str | None, Field(description="The embedding that it was made of, while there is one.")]
    encoding_id: Annotated[str | None, Field(description="The encoding that it is a layer of.")]
    layer: Annotated[int | None, Field(description="0 is the embedding layer.")]
    pooling: Pooling | None
    files: list[FileOut]
    inspection: dict[str, Any] | None
    selection: dict[str, Any] | None
    measurements: list[MeasurementOut]
    findings: Annotated[
        list[FindingOut], Field(description="What is wrong with the cloud; none before it is measured, or if healthy.")
    ]


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


class LookupOut(Row):
    """The nearest neighbours of a row among all rows; results are null until there are any."""

    name: str
    status: ResultStatus
    error: str | None
    results: dict[str, Any] | None


class LookupRequest(BaseModel):
    """The name of a row; where none is spelled so, the first that differs by case alone is found."""

    model_config = ConfigDict(extra="forbid")

    name: str


class ZetaCurveRequest(BaseModel):
    """The embedding whose covariance to shrink towards."""

    model_config = ConfigDict(extra="forbid")

    source_id: RowId
