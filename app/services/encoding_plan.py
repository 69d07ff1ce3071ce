"""What an encoding would make: its configuration checked against the file of texts and the model."""

from collections.abc import Sequence
from typing import NamedTuple

from app.context import Context
from app.db.encoding import FLOAT_BYTES, EncodingConfig, require_sensible
from app.db.models import Encoding
from app.services.models import ModelChoice, require_model
from isoscope.core.errors import InvalidError
from isoscope.files.columns import MAX_LABELS, Column
from isoscope.files.wording import listed, shown


class EncodingPlan(NamedTuple):
    """What a configuration would make. What a model of the Hub has is known only when it has been fetched."""

    rows: int
    """Texts at most; those that are empty are left out."""
    layers: int | None
    embeddings: int | None
    dimensions: int | None
    size_bytes: int | None
    """Of all vectors, on the disk."""
    model_layers: int | None


def plan_encoding(
    context: Context, encoding: Encoding, config: EncodingConfig, *, ask_hub: bool = True
) -> EncodingPlan:
    """Check a configuration against the file and the model, and say what it would make.

    Raises:
        InvalidError: at the field that is wrong.

    """
    _check_columns(encoding.columns, config)
    model = require_model(context.settings, config.model, ask_hub=ask_hub)
    _check_layers(model, config)
    rows = min(encoding.n_texts, config.max_rows or encoding.n_texts)
    n_layers = len(config.layers) if config.layers is not None else None
    if n_layers is None and model.layers is not None:
        n_layers = 1 + model.layers
    embeddings = None if n_layers is None else n_layers * len(config.poolings)
    size_bytes = None
    if embeddings is not None and model.width is not None:
        size_bytes = embeddings * rows * model.width * FLOAT_BYTES
    require_sensible(embeddings or 0, size_bytes or 0)
    return EncodingPlan(rows, n_layers, embeddings, model.width, size_bytes, model.layers)


def _check_columns(columns: Sequence[Column], config: EncodingConfig) -> None:
    by_name = {column.name: column for column in columns}

    def find(name: str, field: str) -> Column:
        if name not in by_name:
            raise InvalidError(f"The file has no column {shown(name)}: choose one of {listed(by_name)}.", field)
        return by_name[name]

    for name in config.text_columns:
        if find(name, "text_columns").n_distinct == 0:
            raise InvalidError(f"The column {shown(name)} is empty in every row: choose another.", "text_columns")
    if len(set(config.text_columns)) < len(config.text_columns):
        raise InvalidError("The same text column was chosen twice: choose two different ones.", "text_columns")
    if config.label_column is None:
        return
    if (labels := find(config.label_column, "label_column")).values is None:
        counted = "more than 1,000" if labels.n_distinct > 1000 else f"{labels.n_distinct:,}"
        raise InvalidError(
            f"The column {shown(labels.name)} has {counted} different values, labels at most {MAX_LABELS}: choose the "
            "column that holds the classes, or none.",
            "label_column",
        )


def _check_layers(model: ModelChoice, config: EncodingConfig) -> None:
    if config.layers is not None and model.layers is not None and config.layers[-1] > model.layers:
        raise InvalidError(
            f"Expected layers from 0 to {model.layers}, which is what {model.name} has, got {config.layers[-1]}.",
            "layers",
        )
