"""Configurations that a user's script logs, and results computed from its predictions and losses."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.names import MAX_NAME_CHARACTERS
from app.db.config import Seed
from app.db.learning import best_constant_class, describe_constant, find_divergence, mean_predictor
from app.db.models import Run, Split, Step
from app.db.options.regularization import Weight, Zeta, regularizers_with
from app.db.predictions import Predictions, read_predictions
from app.db.reported_config import (
    COORDINATES,
    MAX_SETTINGS,
    RESERVED_NAMES,
    UNKNOWN,
    AnyConfig,
    ReportedRunConfig,
    SettingName,
    Settings,
    TextLine,
)
from app.db.run_results import Trivial
from app.results.run_table import as_cell
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import count, one_line
from isoscope.core.task import METRICS, Metric, TaskKind
from isoscope.files.strict import Frozen, Strict
from isoscope.plain import require_bounded
from isotropy.catalog import REGULARIZERS, Regularizer

MAX_FIELDS = MAX_SETTINGS + 1
"""Maximum number of fields in a grid: the settings and the model."""
MAX_GRID_BYTES = 2 * 2**20
"""Maximum size of a logged experiment's grid as JSON, because its page shows every value."""


def _require_visible(name: str) -> str:
    if not name:
        raise ValueError("expected a name, got no visible character")
    return name


VisibleName = Annotated[
    str,
    Field(min_length=1, max_length=MAX_NAME_CHARACTERS),
    AfterValidator(one_line),
    AfterValidator(_require_visible),
]


class LoggedProbe(Strict):
    """Number of tokens and texts on which layers are measured."""

    tokens: int = Field(ge=1, lt=2**53)
    texts: int = Field(ge=1, lt=2**53)


class ScriptRun(Frozen):
    """The request with which a script begins a run of its own training loop."""

    id: str | None = Field(
        None,
        pattern="^[0-9a-f]{32}$",
        description="Chosen by the script, so that a repeated request makes one run. Null: chosen by the server.",
    )
    experiment: VisibleName = Field(description="Name of a script's experiment. It is created if there is none.")
    dataset: VisibleName = Field(description="Only the name is stored; the rows stay where they are.")
    model: VisibleName
    task: TaskKind
    metric: Metric = Field(description="Metric of performance, the same in all runs of an experiment.")
    regularizer: Regularizer = Regularizer.NONE
    lam: Annotated[Weight, AfterValidator(require_bounded)] = 0.0
    zeta: Annotated[Zeta, AfterValidator(require_bounded)] | None = Field(None, description="Required for I-STAR.")
    seed: Seed
    settings: Settings = Field(
        default_factory=dict,
        description="Other settings. Figures and tables separate runs that differ in them. A setting with the name of "
        "a training option is that option. Settings that are left out are shown as unknown.",
    )
    environment: dict[SettingName, TextLine] = Field(
        default_factory=dict,
        max_length=MAX_SETTINGS,
        description="Hardware and software. Not used to group runs.",
    )
    total_steps: int | None = Field(None, ge=1, lt=2**31)
    probe: LoggedProbe | None = None

    @property
    def config(self) -> ReportedRunConfig:
        coordinates = self.model_dump(include=set(COORDINATES), exclude_none=True)
        return ReportedRunConfig(logged=True, **coordinates, **self.settings)

    def check(self) -> None:
        """Raise InvalidError for a field that contradicts another."""
        if self.metric not in METRICS[self.task]:
            metrics = ", ".join(METRICS[self.task])
            raise InvalidError(f"Expected a metric of {self.task}, one of {metrics}; got {self.metric}.", "metric")
        if self.regularizer is Regularizer.NONE and self.lam:
            names = ", ".join(regularizer for regularizer in Regularizer if regularizer is not Regularizer.NONE)
            raise InvalidError(
                f"lam = {self.lam:g} needs a regularizer, one of {names}; got none, which is plain training. Log the "
                "strength of your own penalty among the settings, and leave lam at 0.",
                "regularizer",
            )
        if self.lam and self.zeta is None and self.regularizer in regularizers_with("zeta"):
            name = REGULARIZERS[self.regularizer].name
            raise InvalidError(
                f"{name} needs zeta, by which it shrinks the covariance. Log the zeta of your script.", "zeta"
            )


def extend_grid(
    first_config: AnyConfig, grid: Mapping[str, list[Any]], added_config: AnyConfig
) -> dict[str, list[Any]]:
    """Return the grid of an experiment, which lists all values of each setting that differs, with an added run.

    ``first_config`` is the configuration of the first run. Coordinates except the model are not part of the grid.
    Raise InvalidError if a value looks like another one, and TooLargeError if the grid becomes too large.
    """
    first_values, added_values = first_config.dump(), added_config.dump()
    names = ({*first_values, *grid, *added_values} - RESERVED_NAMES) | {"model"}
    new_grid = {name: list(values) for name, values in grid.items()}
    for name in sorted(names):
        value = added_values.get(name, UNKNOWN)
        values = new_grid.get(name, [first_values.get(name, UNKNOWN)])
        equal_values = [existing for existing in values if as_cell(existing) == as_cell(value)]
        for existing in equal_values:
            # Figures would print both alike, for example true and the text "yes".
            if isinstance(as_cell(value), str) and json.dumps(existing) != json.dumps(value):
                raise InvalidError(
                    f"{name} = {json.dumps(value)} would be shown like {json.dumps(existing)} of an earlier run. Log "
                    "both in the same way.",
                    "settings",
                )
        if not equal_values:
            new_grid[name] = [*values, value]
    advice = "Start another experiment, or log settings that do not distinguish runs as environment."
    if (n_settings := len(new_grid.keys() - {"model"})) > MAX_SETTINGS:
        raise TooLargeError(
            f"Expected the runs of one experiment to differ in at most {MAX_SETTINGS} settings, got {n_settings}. "
            f"{advice}",
            "settings",
        )
    if len(json.dumps(new_grid)) > MAX_GRID_BYTES:
        raise TooLargeError(
            f"Expected all values of the settings that an experiment's runs differ in to take at most "
            f"{count(MAX_GRID_BYTES)} bytes, got more. {advice}",
            "settings",
        )
    return new_grid


def compute_results(session: Session, run: Run) -> dict[str, Any]:
    """Return fields of ``RunResults`` that follow from the predictions and losses that a script logged."""
    predictions = read_predictions(session, [run.id], Split.VALIDATION).get(run.id)
    # A step without any value stands for a loss that was NaN or infinite.
    has_only_loss = Step.penalty.is_(None) & Step.layers.is_(None)
    loss_query = select(Step.task_loss).where(Step.run_id == run.id, Step.task_loss.is_not(None) | has_only_loss)
    losses = list(session.scalars(loss_query.order_by(Step.step)))
    reference = None if predictions is None else predictions.reference
    untrained_loss = None  # of a model that predicts all classes equally, or 0
    if predictions is not None and reference is not None:
        if predictions.kind is TaskKind.CLASSIFICATION:
            untrained_loss = float(np.log(max(2, len(np.unique(reference)))))
        else:
            untrained_loss = float(np.mean(np.square(reference)))
    divergence = find_divergence(losses, untrained_loss)
    results: dict[str, Any] = {} if divergence is None else {"divergence": divergence}
    if predictions is not None:
        trivial = _find_trivial_predictor(predictions, run.config.metric)
        results |= {"constant_prediction": describe_constant(predictions, []), "n_validation": len(predictions)}
        results |= {} if trivial is None else {"trivial": trivial}
    return results


def _find_trivial_predictor(predictions: Predictions, metric: Metric) -> Trivial | None:
    # Validation rows determine the predictor, because training rows are not logged.
    if predictions.reference is None or isinstance(predictions.predicted, tuple):
        return None
    if predictions.kind is TaskKind.REGRESSION:
        return mean_predictor(predictions.reference.astype(np.float64), "validation")
    labels, indices = np.unique(np.concatenate([predictions.reference, predictions.predicted]), return_inverse=True)
    names = [str(label) for label in labels.tolist()]
    reference = indices[: len(predictions)]
    return best_constant_class(reference, reference, names, metric, "validation")
