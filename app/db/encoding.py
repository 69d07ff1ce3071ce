"""The configuration of an encoding, all that is needed to repeat it, stored whole in its row; how much it may make."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.db.config import Seed
from app.db.models.states import Pooling
from isoscope.core.errors import InvalidError

MAX_EMBEDDINGS = 500
"""Of one encoding: a layer under a pooling each."""
MAX_BYTES = 32 * 2**30
"""Of all vectors of one encoding, on the disk."""
FLOAT_BYTES = 4
"""Of each number of them, float32."""

StateNumber = Annotated[int, Field(ge=0, le=1000)]


class EncodingConfig(BaseModel):
    """Which texts go through which model, and what becomes an embedding of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(
        max_length=200,
        description="Encoder or causal: one on this machine, or a name of the Hugging Face Hub where that is reached.",
    )
    text_columns: list[str] = Field(
        min_length=1, max_length=2, description="The column of texts; of two, the model reads each row as a pair."
    )
    label_column: str | None = Field(None, description="Labels of the rows, for colours and for measures by class.")
    poolings: list[Pooling] = Field(
        [Pooling.MEAN],
        min_length=1,
        description="Which vector of a layer stands for a text. Each makes an embedding of every layer.",
    )
    layers: list[StateNumber] | None = Field(
        None, min_length=1, description="Layers to keep, 0 being the input embeddings; without a value all."
    )
    max_rows: int | None = Field(
        2000, ge=2, le=2**31, description="At most so many texts, drawn by the seed; without a value all."
    )
    max_length: int = Field(128, ge=8, le=4096, description="In tokens; longer texts are cut.")
    batch_size: int = Field(32, ge=1, le=4096, description="Texts at once; halved if memory runs out.")
    seed: Seed = Field(0, description="Of the rows that are drawn.")

    @field_validator("poolings")
    @classmethod
    def _in_order(cls, poolings: list[Pooling]) -> list[Pooling]:
        return [pooling for pooling in Pooling if pooling in poolings]

    @field_validator("layers")
    @classmethod
    def _each_layer_once(cls, layers: list[int] | None) -> list[int] | None:
        return None if layers is None else sorted(set(layers))


def require_sensible(embeddings: int, size_bytes: int) -> None:
    """Refuse an encoding of too many embeddings, or too many bytes of vectors."""
    if embeddings > MAX_EMBEDDINGS or size_bytes > MAX_BYTES:
        raise InvalidError(
            f"Expected at most {MAX_EMBEDDINGS} embeddings of {MAX_BYTES / 1e9:,.1f} GB together, got {embeddings:,} "
            f"of {size_bytes / 1e9:,.1f} GB. Choose fewer layers, poolings or rows.",
            "layers",
        )
