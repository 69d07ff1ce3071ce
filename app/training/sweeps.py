"""Sweeps: what a user asks for, and the runs that it means."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field, field_validator

from app.context import Context
from app.db.config import RunConfig, Seed, TrainingConfig, TrainingOptions, words_for_booleans
from app.db.models import Dataset, DatasetOrigin
from app.db.options.option import DATA, NAME, SHRINKAGE, SWEPT, Group, Option
from app.db.options.regularization import ABOUT_LAMBDA, ABOUT_ZETA, Weight, Zeta, reading
from app.db.types import RowId
from app.training import sweep_checks
from app.training.columns import check_columns
from app.training.datasets import find_dataset
from app.training.grid_expansion import GRID_FIELDS, ZETA, Grid, Product, product_of
from app.training.models import require_model
from app.training.queue_status import list_workers
from isoscope.core.errors import InvalidError, check_all
from isotropy.catalog import REGULARIZERS, Regularizer

MAX_RUNS = 500
GRID = Group("Grid")
LENGTHS = {"epochs": "max_steps", "max_steps": "epochs"}


class SweepRequest(TrainingOptions):
    """A configuration, and the values that the runs differ in."""

    dataset_id: Annotated[
        RowId,
        Option(
            "Data set",
            "Models train on the train rows and are scored on the validation rows.",
            DATA,
            details="Upload one on the page of data sets, or name a task of the Hub there.",
        ),
    ]
    regularizers: Annotated[
        list[Regularizer],
        Field(max_length=20),
        Option(
            "Regularizers",
            "Each is swept over all λ separately. Empty: only the baseline.",
            SWEPT,
            words={slug: penalty.name for slug, penalty in REGULARIZERS.items()},
            formula="loss of the task + λ × penalty",
            details="A run has one swept regularizer. Runs of the same seed start from the same weights and read rows "
            "in the same order, so only the penalty differs.",
        ),
    ] = Field([Regularizer.ISTAR])
    lambdas: Annotated[
        list[Weight],
        Field(min_length=1, max_length=100),
        Option(
            "λ values",
            "Strength of the regularizer: negative λ lowers isotropy, positive λ raises it.",
            SWEPT,
            **vars(ABOUT_LAMBDA),
        ),
    ] = Field([-1.0, 0.0, 1.0])
    zetas: Annotated[
        list[Zeta],
        Field(min_length=1, max_length=50),
        Option(
            "ζ values",
            "For I-STAR: how far to shrink the batch covariance toward that of many more tokens. 0: no shrinkage.",
            SHRINKAGE,
            applies_to=reading("zeta"),
            **vars(ABOUT_ZETA),
        ),
    ] = Field([0.2])
    seeds: Annotated[
        list[Seed],
        Field(min_length=1, max_length=100),
        Option(
            "Seeds",
            "Train every setting once per seed. A seed sets the initial weights, dropout, and the order of rows.",
            SWEPT,
            details="With one seed, a difference may be chance. Error bars need two seeds, a verdict on a λ three. The "
            "exact sign-flip test beside the verdict needs six to reach p < 0.05, or seven for two or three λ. The "
            "papers use five seeds.",
        ),
    ] = Field([0])
    grid: Annotated[
        Grid,
        Option(
            "Grid",
            "Values by the name of a training option: every combination is a setting, with a baseline of its own. A "
            "regularizer's own options are varied only in its runs. A grid over max_steps stands in for epochs.",
            GRID,
            details="These values replace the option’s own field above. Options of a regularizer apply to its runs "
            "only, all others to the baseline too.",
        ),
    ] = Field(default_factory=dict)
    name: Annotated[
        str | None,
        Field(max_length=200),
        Option(
            "Name",
            "Name of the experiment. Empty: named after model and data set.",
            NAME,
            none_means="after model and data set",
            details="You can search for it, and it names downloaded files.",
        ),
    ] = None

    @field_validator("grid", mode="before")
    @classmethod
    def _of_what_may_differ(cls, grid: Any) -> Any:
        names = grid if isinstance(grid, Mapping) else ()
        if shared := [name for name in TrainingOptions.model_fields if name in names and name not in GRID_FIELDS]:
            raise ValueError(
                f"expected a grid over options that the runs of an experiment may differ in; `{shared[0]}` is the same "
                "for all of them, so that they can be compared"
            )
        return words_for_booleans(grid, TrainingOptions.model_fields)


class SweepPlan(NamedTuple):
    """The runs that a request means, before any is made."""

    dataset: Dataset
    config: TrainingConfig
    grid: dict[str, list[Any]]
    product: Product
    runs: list[RunConfig]
    notes: list[str]

    @property
    def words(self) -> str:
        """How the number of runs comes about."""
        return self.product.describe(self.product.total - len(self.runs))


def plan_sweep(context: Context, request: SweepRequest, *, ask_hub: bool = True) -> SweepPlan:
    """Check a request against its data set and models, and list its runs.

    To compare with, every setting and seed gets a run at lambda = 0, which is training without the swept regularizers.
    Raises InvalidError at the field that is wrong.
    """
    with context.sessions() as session:
        dataset = find_dataset(session, request.dataset_id)
    if dataset.origin is DatasetOrigin.BY_NAME:
        raise InvalidError(
            f"{dataset.name} has a name but no rows here, so nothing can be trained on it. Upload "
            "its train and validation files as a data set.",
            "dataset_id",
        )
    columns = dataset.columns
    grid = {name: _each_once(values) for name, values in request.grid.items()}
    fixed = frozenset().union(request.fixed_regularizers, *grid.get("fixed_regularizers", ()))
    factors = _product(request, grid, fixed)
    check_all(
        lambda: check_columns(columns, request.task, request.text_columns, request.label_column),
        lambda: _check_lengths(grid),
        lambda: sweep_checks.check_combination(factors.methods, fixed),
        lambda: sweep_checks.check_grid(grid, fixed.union(factors.methods), grid.get("points", [request.points])),
        lambda: sweep_checks.check_hidden_states(request, fixed.union(factors.methods)),
        lambda: _check_number(factors, grid),
    )
    names = check_columns(columns, request.task, request.text_columns, request.label_column)
    config = TrainingConfig.model_validate(_first_setting(request, grid) | {"label_names": names})
    base = config.model_dump() | {ZETA: request.zetas[0]}
    runs = [RunConfig.model_validate(base | coordinates) for coordinates in factors.coordinates()]
    models = {name: require_model(context.settings, name, ask_hub=ask_hub) for name in {run.model for run in runs}}
    check_all(
        *(partial(sweep_checks.check_run, run, models[run.model], grid) for run in runs),
        lambda: sweep_checks.check_precision(runs, list_workers(context), grid),
    )
    different = _different(runs)
    ranges = sweep_checks.SweepRanges(request.lambdas, request.zetas, request.seeds, request.grid)
    notes = [
        *sweep_checks.notes_of(ranges, factors, factors.total - len(different)),
        *sweep_checks.notes_of_rows(dataset, runs),
    ]
    return SweepPlan(dataset, config, grid, factors, different, notes)


def _product(request: SweepRequest, grid: Mapping[str, list[Any]], fixed: frozenset[Regularizer]) -> Product:
    swept = [regularizer for regularizer in request.regularizers if regularizer is not Regularizer.NONE]
    ranges = {**grid, ZETA: _each_once(request.zetas)}
    return product_of(ranges, swept, fixed, request.lambdas, request.seeds)


def _check_number(factors: Product, grid: Mapping[str, list[Any]]) -> None:
    if factors.total > MAX_RUNS:
        raise InvalidError(
            f"Expected at most {MAX_RUNS} runs in one experiment, got {factors.describe()}. "
            "Take fewer λ values, seeds or values of the grid.",
            "grid" if grid else "lambdas",
        )


def _check_lengths(grid: Mapping[str, list[Any]]) -> None:
    for name in LENGTHS:
        if None in grid.get(name, ()):
            raise InvalidError(
                f"Expected a whole number as each value of `{name}` in the grid, got null: a run without a length "
                "never ends. Take it out.",
                "grid",
            )


def _first_setting(request: SweepRequest, grid: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The training options with the first value of each field of the grid."""
    options = request.model_dump(include=set(TrainingOptions.model_fields))
    for name, values in grid.items():
        options[name] = values[0]
        if name in LENGTHS:
            options[LENGTHS[name]] = None
    return options


def _each_once(values: list[Any]) -> list[Any]:
    """Values in their order without repetitions, of which lists and objects are recognized by what they hold."""
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


def _different(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Runs without those that differ from an earlier one in nothing that they read."""
    first: dict[str, RunConfig] = {}
    for run in runs:
        read = {field: value for field, value in run.model_dump(mode="json").items() if run.reads(field)}
        first.setdefault(json.dumps(read, sort_keys=True), run)
    return list(first.values())
