"""What the runs of an experiment can differ in besides regularizer, lambda and seed: a grid over training options."""

from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from app.db.config import TrainingOptions

MAX_VALUES = 50
ZETA = "zeta"

NOUNS = {
    "model": "models",
    "epochs": "numbers of epochs",
    "max_steps": "numbers of steps",
    "batch_size": "batch sizes",
    "accumulation": "accumulations",
    "optimizer": "optimizers",
    "learning_rate": "rates",
    "warmup": "warm-ups",
    "schedule": "schedules",
    "weight_decay": "weight decays",
    "precision": "precisions",
    "gradient_checkpointing": "kinds of gradient checkpointing",
    "processes": "numbers of processes",
    "max_length": "lengths",
    "stride": "strides",
    "checkpoint": "choices of checkpoint",
    "selection": "choices of selection rows",
    "evaluate_every": "evaluation intervals",
    "patience": "patiences",
    "probe_every": "probe intervals",
    "export": "choices of keeping the model",
    "beside": "sets of further regularizers",
    "layers": "choices of layers",
    "points": "kinds of points",
    "include_padding": "kinds of padding",
    "token_fraction": "token fractions",
    "shrinkage_points": "numbers of shrinkage points",
    "shrinkage_refresh": "shrinkage refreshes",
    "shrinkage_every": "shrinkage intervals",
    "shrinkage_momentum": "shrinkage momenta",
    "entropy_bars": "kinds of bars",
    "entropy_by_label": "kinds of grouping",
    "entropy_cluster_weight": "cluster weights",
    ZETA: "ζ",
}
"""The training options that a grid may range over, and how several values of each are called."""

GRID_FIELDS = tuple(name for name in NOUNS if name != ZETA)
"""All training options but those that an experiment's runs share so that they can be compared."""


class _Values:
    """Each list of values is checked as values of the training option of its name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(_list_of(name)), required=False)
            for name in GRID_FIELDS
        }
        return core_schema.typed_dict_schema(fields, extra_behavior="forbid")


def _list_of(name: str) -> Any:
    option = TrainingOptions.model_fields[name]
    value = Annotated[option.annotation, *option.metadata] if option.metadata else option.annotation
    return Annotated[list[value], Field(min_length=1, max_length=MAX_VALUES)]  # type: ignore[valid-type]


Grid = Annotated[dict[str, list[Any]], _Values()]
"""Values by the name of a training option."""
