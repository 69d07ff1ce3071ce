"""Encodings of texts and their layers."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from app.db.encoding import EncodingConfig
from app.db.models import EmbeddingStatus, EncodingStatus, Pooling
from app.formats.quoting import Quoting
from app.routes.api.schemas.measures import MeasurementSummary
from app.routes.api.schemas.row import Row


class EncodingOut(Row):
    """Texts, the model they go through, and how far they are."""

    id: str
    name: str
    filename: str
    n_texts: int
    columns: list[Any]
    quoting: Annotated[
        Quoting | None, Field(description="How the quotes of a .tsv file are read; null where there are none.")
    ]
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
