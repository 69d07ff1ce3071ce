"""What a user's own script says of its runs: checked where Isoscope has a meaning for it, judged when it ends."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.core.names import MAX_NAME_CHARACTERS
from app.db.config import Seed
from app.db.learning import best_class, best_number, constant_words, find_divergence
from app.db.models import Run, Split, Step
from app.db.options.regularization import Weight, Zeta, reading
from app.db.predictions import Predictions, read_predictions
from app.db.reported_config import (
    COORDINATES,
    MAX_SETTINGS,
    OWN,
    UNKNOWN,
    AnyConfig,
    Line,
    ReportedConfig,
    ReportedRunConfig,
    Settings,
    Word,
)
from app.db.run_results import Divergence, Trivial
from app.results.setting import as_cell
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import count, one_line
from isoscope.core.task import METRICS, Metric, TaskKind
from isoscope.files.strict import Frozen, Strict
from isoscope.plain import bounded
from isotropy.catalog import REGULARIZERS, Regularizer

MAX_FIELDS = MAX_SETTINGS + 1
"""Of a grid: the settings, and the model."""
MAX_GRID_BYTES = 2 * 2**20
"""Of all values by which the runs of an experiment are told apart: its page shows every one of them."""


def _that_can_be_seen(name: str) -> str:
    if not name:
        raise ValueError("expected a name, got no visible character")
    return name


Name = Annotated[
    str,
    Field(min_length=1, max_length=MAX_NAME_CHARACTERS),
    AfterValidator(one_line),
    AfterValidator(_that_can_be_seen),
]


class Probe(Strict):
    """On how much the layers are watched: the same tokens and texts at every look."""

    tokens: int = Field(ge=1, lt=2**53)
    texts: int = Field(ge=1, lt=2**53)


class ScriptRun(Frozen):
    """A run of a user's own training loop, as its script announces it."""

    id: str | None = Field(
        None,
        pattern="^[0-9a-f]{32}$",
        description="Chosen by the script, so that a repeated request makes one run. Null: chosen by the server.",
    )
    experiment: Name = Field(description="Name of a script's experiment. It is created if there is none.")
    dataset: Name = Field(description="Only the name is stored; the rows stay where they are.")
    model: Name
    task: TaskKind
    metric: Metric = Field(description="Metric of performance, the same in all runs of an experiment.")
    regularizer: Regularizer = Regularizer.NONE
    lam: Annotated[Weight, AfterValidator(bounded)] = 0.0
    zeta: Annotated[Zeta, AfterValidator(bounded)] | None = Field(None, description="Required for I-STAR.")
    seed: Seed
    settings: Settings = Field(
        default_factory=dict,
        description="What else was chosen. Runs that differ in any of it are told apart in figures and tables; one "
        "that is called as a training option is that option. What is not said is shown as unknown.",
    )
    environment: dict[Word, Line] = Field(
        default_factory=dict,
        max_length=MAX_SETTINGS,
        description="Hardware and software. Not used to group runs.",
    )
    total_steps: int | None = Field(None, ge=1, lt=2**31)
    probe: Probe | None = None

    @property
    def config(self) -> ReportedRunConfig:
        """What is stored as the run's configuration: only what was said."""
        told = self.model_dump(include=set(COORDINATES), exclude_none=True)
        return ReportedRunConfig(logged=True, **told, **self.settings)

    @property
    def shared_config(self) -> ReportedConfig:
        """What is stored as its experiment's configuration if it is the first run."""
        told = self.model_dump(include={"model", "task", "metric"})
        return ReportedConfig(logged=True, **told, **self.settings)

    def check(self) -> None:
        """Raise InvalidError at a field that does not go with another."""
        if self.metric not in METRICS[self.task]:
            of_it = ", ".join(METRICS[self.task])
            raise InvalidError(f"Expected a metric of {self.task}, one of {of_it}; got {self.metric}.", "metric")
        if self.regularizer is Regularizer.NONE and self.lam:
            names = ", ".join(one for one in Regularizer if one is not Regularizer.NONE)
            raise InvalidError(
                f"Expected the regularizer whose strength lam = {self.lam:g} is, one of {names}; got none, which is "
                "plain training. Give the strength of a penalty of your own among the settings, and leave lam at 0.",
                "regularizer",
            )
        if self.lam and self.zeta is None and self.regularizer in reading("zeta"):
            name = REGULARIZERS[self.regularizer].name
            raise InvalidError(f"Expected zeta, which {name} shrinks the covariance by; give the script's own.", "zeta")


def differ(first: AnyConfig, grid: Mapping[str, list[Any]], added: AnyConfig) -> dict[str, list[Any]]:
    """Return the grid of an experiment with one more run: every value of what its runs differ in, by name.

    ``first`` is what the first of them said. Coordinates stand in columns of their own, all but the model.
    """
    config, new = first.dump(), added.dump()
    apart = ({*config, *grid, *new} - OWN) | {"model"}
    grown = {name: list(values) for name, values in grid.items()}
    for name in sorted(apart):
        value = new.get(name, UNKNOWN)
        values = grown.get(name, [config.get(name, UNKNOWN)])
        alike = [known for known in values if as_cell(known) == as_cell(value)]
        _require_told_apart(name, value, alike)
        if not alike:
            grown[name] = [*values, value]
    _require_small(grown)
    return grown


def _require_told_apart(name: str, value: Any, alike: list[Any]) -> None:
    """Refuse a value that figures and tables would take for another one, as true for the text "yes"."""
    for known in alike:
        if isinstance(as_cell(value), str) and json.dumps(known) != json.dumps(value):
            raise InvalidError(
                f"Expected a {name} that reads unlike those of the experiment's other runs, got {json.dumps(value)}, "
                f"which is shown as {json.dumps(known)} is. Say both in the same way.",
                "settings",
            )


def _require_small(grid: Mapping[str, list[Any]]) -> None:
    advice = "Start another experiment, or log settings that do not distinguish runs as environment."
    if (names := len(grid.keys() - {"model"})) > MAX_SETTINGS:
        raise TooLargeError(
            f"Expected the runs of one experiment to differ in at most {MAX_SETTINGS} settings, got {names}. {advice}",
            "settings",
        )
    if len(json.dumps(grid)) > MAX_GRID_BYTES:
        raise TooLargeError(
            f"Expected all values of the settings that an experiment's runs differ in to take at most "
            f"{count(MAX_GRID_BYTES)} bytes, got more. {advice}",
            "settings",
        )


def judge(session: Session, run: Run) -> dict[str, Any]:
    """Return the fields of a run's results that its predictions and its losses tell: what of it is known."""
    found = read_predictions(session, [run.id], Split.VALIDATION).get(run.id)
    divergence = _divergence(session, run, found)
    told: dict[str, Any] = {} if divergence is None else {"divergence": divergence}
    if found is None:
        return told
    trivial = _trivial(found, run.config.metric)
    return {
        **told,
        "constant_prediction": constant_words(found, []),
        **({} if trivial is None else {"trivial": trivial}),
        "n_validation": len(found),
    }


def _trivial(found: Predictions, metric: Metric) -> Trivial | None:
    """The best constant predictor on the rows themselves, as no training rows are known; and names of classes."""
    if found.reference is None or isinstance(found.predicted, tuple):
        return None
    if found.kind is TaskKind.REGRESSION:
        return best_number(found.reference.astype(np.float64), "validation")
    labels, places = np.unique(np.concatenate([found.reference, found.predicted]), return_inverse=True)
    names = [str(label) for label in labels.tolist()]
    reference = places[: len(found)]
    return best_class(reference, reference, names, metric, "validation")


def _divergence(session: Session, run: Run, found: Predictions | None) -> Divergence | None:
    """Whether its training diverged. A step without loss, penalty and layers is one whose loss was not a number."""
    nothing_else = Step.penalty.is_(None) & Step.layers.is_(None)
    logged = select(Step.task_loss).where(Step.run_id == run.id, Step.task_loss.is_not(None) | nothing_else)
    losses = list(session.scalars(logged.order_by(Step.step)))
    return find_divergence(losses, _untrained_loss(found))


def _untrained_loss(found: Predictions | None) -> float | None:
    """The loss of a model that knows nothing yet, as far as the references tell."""
    if found is None or found.reference is None:
        return None
    if found.kind is TaskKind.CLASSIFICATION:
        return float(np.log(max(2, len(np.unique(found.reference)))))
    return float(np.mean(np.square(found.reference)))
