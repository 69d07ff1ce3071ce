"""Sweeps: what a user asks for, and the runs that it means."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from app.context import Context
from app.db.config import RunConfig, Seed, TrainingConfig, TrainingOptions, Weight, Zeta, words_for_booleans
from app.db.models import Dataset, DatasetOrigin
from app.db.regularizer_options import Regularizer
from app.db.types import RowId
from app.errors import InvalidError
from app.formats.columns import Column
from app.services.columns import check_columns
from app.services.datasets import find_dataset
from app.services.grid import GRID_FIELDS, ZETA, Grid
from app.services.models import require_model
from app.services.product import Product, product_of
from app.services.sweep_checks import (
    check_combination,
    check_grid,
    check_hidden_states,
    check_precision,
    check_run,
)
from app.services.sweep_notes import Asked, notes_of, notes_of_rows
from app.services.workers import list_workers

MAX_RUNS = 500
LENGTHS = {"epochs": "max_steps", "max_steps": "epochs"}


class SweepRequest(TrainingOptions):
    """A configuration, and the values that the runs differ in."""

    name: str | None = Field(
        None, max_length=200, description="What the experiment is called; without a name, after model and data set."
    )
    dataset_id: RowId = Field(description="The data set: its train rows are trained on, its validation rows judge.")
    regularizers: list[Regularizer] = Field(
        [Regularizer.ISTAR],
        max_length=20,
        description="Each is swept over all λ on its own; none, or an empty list: the baseline alone.",
    )
    lambdas: list[Weight] = Field(
        [-1.0, 0.0, 1.0],
        min_length=1,
        max_length=100,
        description="How strongly a regularizer acts: below 0 it takes isotropy away, above 0 it adds it.",
    )
    zetas: list[Zeta] = Field(
        [0.2],
        min_length=1,
        max_length=50,
        description="Of I-STAR: how far a batch’s covariance is shrunk to that of many more tokens. 0: not at all.",
    )
    seeds: list[Seed] = Field(
        [0],
        min_length=1,
        max_length=100,
        description="Every setting is trained once with each: new weights, dropout and order of the rows.",
    )
    grid: Grid = Field(
        default_factory=dict,
        description="Values by the name of a training option: every combination is a setting, with a baseline of its "
        "own. A regularizer's own options are varied only in its runs. A grid over max_steps stands in for epochs.",
    )

    @field_validator("grid", mode="before")
    @classmethod
    def _of_what_may_differ(cls, grid: Any) -> Any:
        names = grid if isinstance(grid, Mapping) else ()
        if shared := [name for name in TrainingOptions.model_fields if name in names and name not in GRID_FIELDS]:
            raise ValueError(
                f"expected a grid over options that the runs of an experiment may differ in; {shared[0]} is the same "
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
        return self.product.words(self.product.total - len(self.runs))


def plan_sweep(context: Context, request: SweepRequest, *, ask_hub: bool = True) -> SweepPlan:
    """Check a request against its data set and models, and list its runs.

    To compare with, every setting and seed gets a run at lambda = 0, which is training without the swept regularizers.
    Raises InvalidError at the field that is wrong.
    """
    with context.sessions() as session:
        dataset = find_dataset(session, request.dataset_id)
    if dataset.origin is DatasetOrigin.NAMED:
        raise InvalidError(
            f"{dataset.name} is a name alone, of rows that were never here, so nothing can be trained on it. Upload "
            "its train and validation files as a data set.",
            "dataset_id",
        )
    columns = [Column.model_validate(column) for column in dataset.columns]
    names = check_columns(columns, request.task, request.text_columns, request.label_column)
    grid = {name: _each_once(values) for name, values in request.grid.items()}
    _check_lengths(grid)
    factors = _product(request, grid)
    config = TrainingConfig.model_validate(_first_setting(request, grid) | {"label_names": names})
    base = config.model_dump() | {ZETA: request.zetas[0]}
    runs = [RunConfig.model_validate(base | coordinates) for coordinates in factors.coordinates()]
    models = {name: require_model(context.settings, name, ask_hub=ask_hub) for name in {run.model for run in runs}}
    for run in runs:
        check_run(run, models[run.model], grid)
    check_precision(runs, list_workers(context), grid)
    different = _different(runs)
    asked = Asked(request.lambdas, request.zetas, request.seeds, request.grid)
    notes = [*notes_of(asked, factors, factors.total - len(different)), *notes_of_rows(dataset, runs)]
    return SweepPlan(dataset, config, grid, factors, different, notes)


def _product(request: SweepRequest, grid: Mapping[str, list[Any]]) -> Product:
    swept = [one for one in request.regularizers if one is not Regularizer.NONE]
    beside = frozenset().union(request.beside, *grid.get("beside", ()))
    check_combination(swept, beside)
    there = beside.union(swept)
    check_grid(grid, there, grid.get("points", [request.points]))
    check_hidden_states(request, there)
    ranges = {**grid, ZETA: _each_once(request.zetas)}
    factors = product_of(ranges, swept, beside, request.lambdas, request.seeds)
    if factors.total > MAX_RUNS:
        raise InvalidError(
            f"Expected at most {MAX_RUNS} runs in one experiment, got {factors.words()}. "
            "Take fewer lambdas, seeds or values of the grid.",
            "grid" if grid else "lambdas",
        )
    return factors


def _check_lengths(grid: Mapping[str, list[Any]]) -> None:
    for name in LENGTHS:
        if None in grid.get(name, ()):
            raise InvalidError(
                f"Expected a whole number as each value of {name} in the grid, got null: a run without a length never "
                "ends. Take it out.",
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
    """Values in their order without repetitions, of which lists and objects are recognised by what they hold."""
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


def _different(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Runs without those that differ from an earlier one in nothing that they read."""
    first: dict[str, RunConfig] = {}
    for run in runs:
        read = {field: value for field, value in run.model_dump(mode="json").items() if run.reads(field)}
        first.setdefault(json.dumps(read, sort_keys=True), run)
    return list(first.values())
