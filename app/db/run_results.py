"""Results of a run: written by workers and scripts, stored, shown, exported and imported unchanged."""

from math import isfinite
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from app.db.states import Pooling
from app.db.types import Count, Number
from isoscope.core.task import Metric

MAX_LAYERS = 1000

# A number, or null if undefined. Rows of early versions may hold NaN instead of null.
Value = Annotated[
    Number | None, BeforeValidator(lambda value: None if isinstance(value, float) and not isfinite(value) else value)
]
Measure = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,60}$")]
Reason = Annotated[str, Field(max_length=10_000)]
Values = Annotated[list[Value], Field(max_length=MAX_LAYERS)]
Reasons = Annotated[list[Reason | None], Field(max_length=MAX_LAYERS)]


class ResultsPart(BaseModel):
    """Base class of all parts of results. It rejects unknown fields, and does not write fields that were not set."""

    model_config = ConfigDict(extra="forbid")

    @model_serializer(mode="wrap")
    def _write_set_fields(self, write: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def] # noqa: ANN202 - typed, the schema would be lost
        return {name: value for name, value in write(self).items() if name in self.model_fields_set}

    def dump(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class Trivial(ResultsPart):
    """The best constant predictor, and its score on the run's evaluation rows."""

    predictor: Reason = Field(description="In words: always “0”, the most frequent class of the training rows.")
    metrics: dict[Metric, Value]
    reasons: dict[Metric, Reason] = Field({}, description="Why a metric is null.")


class Divergence(ResultsPart):
    """Final and initial task loss of a training that diverged."""

    loss: Value = Field(description="Null if it was not a number.")
    start: Value = Field(description="Null if it was not a number from the first step on.")


class Learning(ResultsPart):
    """Evidence on whether a run learned anything. Lists and figures of many runs read only this part."""

    trivial: Trivial | None = None
    constant_prediction: Reason | None = Field(
        None, description="The prediction that all rows share, in words. Null if they differ."
    )
    divergence: Divergence | None = Field(None, description="Null if the training did not diverge.")


class LayerValues(ResultsPart):
    """A measure by layer, first transformer layer first."""

    values: Annotated[Values, Field(min_length=1)]
    reasons: Reasons = Field(description="Why a value is null, by layer. Null for other values.")

    @model_validator(mode="after")
    def _require_reason_per_layer(self) -> Self:
        if len(self.values) != len(self.reasons):
            raise ValueError(
                f"expected a reason or null for each of {len(self.values)} layers, got {len(self.reasons)}"
            )
        return self


class Reference(ResultsPart):
    """IsoScore* of each layer's sentence vectors under the protocol of the I-STAR reference code."""

    zeta: float = Field(ge=0, le=1)
    layers: Values
    layer_reasons: Reasons = []
    pooling: Pooling = Field(Pooling.FIRST, description="The vector of a text. Not in results of the first versions.")
    n: Count | None = None


class LastLayerValue(ResultsPart):
    """A measure of the last layer's sentence vectors."""

    model_config = ConfigDict(extra="allow")

    value: Value
    reason: Reason | None
    n: Count | None


class SentenceVectors(ResultsPart):
    """Measures of the last layer's sentence vectors, one per text."""

    model_config = ConfigDict(extra="allow")

    pooling: Pooling
    last_layer: dict[Measure, LastLayerValue]


class WeightSelection(ResultsPart):
    """Evaluations during training that chose the weights or stopped the run early."""

    model_config = ConfigDict(extra="allow")

    split: str = Field("", description="The rows that chose: `validation` or `held_out`.")
    n: Count | None = None
    metric: Metric | None = None
    best_step: Count | None = None
    best: Value = None
    history: list[tuple[Count, Value]] = Field(description="Step and metric of each evaluation.")
    stopped_early: bool = False


class RunResults(Learning):
    """Results of a run on its validation rows. Missing fields were not measured or not reported."""

    model_config = ConfigDict(extra="allow")

    metrics: dict[Metric, Value]
    metric_reasons: dict[Metric, Reason] = Field({}, description="Why a metric is null.")
    loss: Value = None
    n_validation: Count | None = Field(None, description="Evaluated rows.")
    tokens: Count | None = Field(None, description="Tokens of one layer, without padding.")
    points: Count | None = Field(None, description="Points of all layers that IsoScore* is computed from.")
    zeta: float | None = Field(None, ge=0, le=1, description="Zeta of the reported IsoScore*.")
    by_layer: dict[Measure, LayerValues] = {}
    by_layer_n: dict[Measure, Count | None] = Field(
        {}, description="Points that each measure is computed from: tokens, texts, or sentence vectors."
    )
    sentences: SentenceVectors | None = None
    reference: Reference | None = None
    layers: Values = Field([], description="IsoScore* by layer, in results of the first versions.")
    layer_reasons: Reasons = []
    f1_average: str | None = Field(None, description="`binary`: of one label. `macro`: the mean over labels.")
    f1_positive: str | None = Field(None, description="Positive label of binary F1.")
    n_questions: Count = 0
    n_windows: Count = 0
    n_train_questions: Count = 0
    n_train_windows: Count = 0
    n_train_left_out: Count = 0
    n_questions_cut: Count = 0
    selection: WeightSelection | None = None
    further: dict[str, bool | int | float | str] = Field({}, description="Other values that a script reported.")

    @property
    def learning(self) -> Learning | None:
        """Return the part that ``Run.learning`` repeats; None if all of its fields are null."""
        values = {name: getattr(self, name) for name in Learning.model_fields}
        present = {name: value for name, value in values.items() if value is not None}
        return Learning(**present) if present else None
