"""Sweep requests: their checks, the planned runs, and notes on them."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field, field_validator

from app.context import Context
from app.core.evidence import MIN_SEEDS, min_lambdas
from app.core.process import machine_cores
from app.db.config import (
    OPTIONS,
    RunConfig,
    Seed,
    TrainingConfig,
    TrainingOptions,
    option_applies,
    regularizers_reading,
    replace_booleans,
)
from app.db.models import Dataset, DatasetOrigin, Worker
from app.db.options.option import DATA, NAME, SHRINKAGE, SWEPT, Group, Option
from app.db.options.regularization import ABOUT_LAMBDA, ABOUT_ZETA, Weight, Zeta, regularizers_with
from app.db.options.training import Precision
from app.db.types import RowId
from app.db.work import slot_name
from app.training.collapse_warnings import warn_of_collapse
from app.training.columns import check_columns
from app.training.datasets import require_dataset
from app.training.grid_expansion import GRID_FIELDS, ZETA, Grid, Product, build_product
from app.training.models import ModelChoice, require_model
from app.training.queue_status import has_gpu, list_workers
from isoscope.core.errors import FieldError, InvalidError, check_all, combine_errors
from isoscope.core.formatting import capitalized, count, plural, quote
from isoscope.core.task import TaskKind
from isotropy.catalog import REGULARIZERS, Regularizer, TokenPooling

MAX_RUNS = 500
GRID = Group("Grid")
REPLACED_LENGTHS = {"epochs": "max_steps", "max_steps": "epochs"}
"""By option that says how long a run trains: the other such option, which it replaces."""


class SweepRequest(TrainingOptions):
    """A configuration, and the values that runs differ in."""

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
            applies_to=regularizers_with("zeta"),
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
            details="With one seed, a difference may be chance. Error bars need two seeds, a verdict on a λ three. Of "
            "five settings, three seeds show a gain of three standard deviations of a run in more than half of the "
            "sweeps. The papers use five seeds.",
        ),
    ] = Field([0])
    grid: Annotated[
        Grid,
        Option(
            "Grid",
            "Values by the name of a training option: every combination is a setting, with its own baseline. A "
            "regularizer's own options are varied only in its runs. A grid over max_steps replaces epochs.",
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
    def _check_grid_fields(cls, grid: Any) -> Any:
        names = grid if isinstance(grid, Mapping) else ()
        if shared := [name for name in TrainingOptions.model_fields if name in names and name not in GRID_FIELDS]:
            raise ValueError(
                f"expected a grid over options that the runs of an experiment may differ in; `{shared[0]}` is the same "
                "for all of them, so that they can be compared"
            )
        return replace_booleans(grid, TrainingOptions.model_fields)


class SweepPlan(NamedTuple):
    """The runs that a request would launch."""

    dataset: Dataset
    config: TrainingConfig
    grid: dict[str, list[Any]]
    product: Product
    runs: list[RunConfig]
    notes: list[str]


def plan_sweep(context: Context, request: SweepRequest, *, ask_hub: bool = True) -> SweepPlan:
    """Check a request and plan its runs, with a baseline for every setting and seed. Raises InvalidError.

    Without ``ask_hub``, any possible name of a model on the Hub passes.
    """
    with context.sessions() as session:
        dataset = require_dataset(session, request.dataset_id)
    if dataset.origin is DatasetOrigin.BY_NAME:
        raise InvalidError(
            f"{dataset.name} has a name but no rows here, so nothing can be trained on it. Upload "
            "its train and validation files as a data set.",
            "dataset_id",
        )
    columns = dataset.columns
    grid = {name: _distinct_values(values) for name, values in request.grid.items()}
    fixed_regularizers = frozenset().union(request.fixed_regularizers, *grid.get("fixed_regularizers", ()))
    swept = [regularizer for regularizer in request.regularizers if regularizer is not Regularizer.NONE]
    ranges = {**grid, ZETA: _distinct_values(request.zetas)}
    product = build_product(ranges, swept, fixed_regularizers, request.lambdas, request.seeds)
    check_all(
        lambda: check_columns(columns, request.task, request.text_columns, request.label_column),
        lambda: check_settings(request, grid, swept, fixed_regularizers),
        lambda: _check_run_count(product, grid),
    )
    class_names = check_columns(columns, request.task, request.text_columns, request.label_column)
    options = request.model_dump(include=set(TrainingOptions.model_fields)) | {"label_names": class_names}
    for name, values in grid.items():
        options |= {name: values[0]} | ({REPLACED_LENGTHS[name]: None} if name in REPLACED_LENGTHS else {})
    config = TrainingConfig.model_validate(options)
    shared_settings = config.model_dump() | {ZETA: request.zetas[0]}
    runs = [RunConfig.model_validate(shared_settings | run_settings) for run_settings in product.run_settings()]
    models = {name: require_model(context.settings, name, ask_hub=ask_hub) for name in {run.model for run in runs}}
    check_all(
        *(partial(check_run, run, models[run.model], grid) for run in runs),
        lambda: check_precision(runs, list_workers(context), grid),
        lambda: check_processes(context, runs, grid),
    )
    distinct_runs = _distinct_runs(runs)
    notes = [
        *warn_of_collapse(context, distinct_runs),
        *list_plan_notes(request, product, product.total - len(distinct_runs)),
        *list_row_notes(dataset, runs),
    ]
    return SweepPlan(dataset, config, grid, product, distinct_runs, notes)


def _check_run_count(product: Product, grid: Mapping[str, list[Any]]) -> None:
    if product.total > MAX_RUNS:
        raise InvalidError(
            f"Expected at most {MAX_RUNS} runs in one experiment, got {product.describe()}. "
            "Take fewer λ values, seeds or values of the grid.",
            "grid" if grid else "lambdas",
        )


def _distinct_values(values: list[Any]) -> list[Any]:
    """Return values without repetitions; lists and objects compare by content."""
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())


def _distinct_runs(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Return runs without those that differ from an earlier one only in options without effect."""
    first_runs: dict[str, RunConfig] = {}
    for run in runs:
        read_settings = {field: value for field, value in run.model_dump(mode="json").items() if run.uses_option(field)}
        first_runs.setdefault(json.dumps(read_settings, sort_keys=True), run)
    return list(first_runs.values())


def check_settings(
    request: SweepRequest,
    grid: Mapping[str, list[Any]],
    swept: Collection[Regularizer],
    fixed_regularizers: frozenset[Regularizer],
) -> None:
    """Raise InvalidError with an error for every setting that conflicts with another or has no effect."""
    errors, regularizers = [], fixed_regularizers.union(swept)
    if nullable_lengths := [name for name in REPLACED_LENGTHS if None in grid.get(name, ())]:
        sentence = (
            f"Expected a whole number as each value of `{nullable_lengths[0]}` in the grid, got null: a run without a "
            "length never ends. Take it out."
        )
        errors.append(FieldError("grid", sentence))
    if clashing_names := [
        item.name for slug, item in REGULARIZERS.items() if slug in swept and slug in fixed_regularizers
    ]:
        sentence = (
            f"{clashing_names[0]} is swept over λ and also added to every run, so it would have two λ in one run. "
            "Take it out of one of the two."
        )
        errors.append(FieldError("fixed_regularizers", sentence))
    poolings = grid.get("points", [request.points])
    unused = [name for name in grid if not any(option_applies(name, regularizers, pooling) for pooling in poolings)]
    if {"epochs", "max_steps"} <= set(grid):
        sentence = "Expected a grid over either `epochs` or `max_steps`, got both; take one out."
        errors.append(FieldError("grid", sentence))
    elif unused:
        readers = " or ".join(
            item.name for slug, item in REGULARIZERS.items() if slug in (regularizers_reading(unused[0]) or ())
        )
        clause = ", where it sees tokens" if OPTIONS[unused[0]].needs_tokens else ""
        sentence = (
            f"The grid ranges over `{unused[0]}`, an option of {readers}{clause}, and the sweep has none of it. "
            "Add the regularizer, or take the option out of the grid."
        )
        errors.append(FieldError("grid", sentence))
    chosen_fields = [field for field in ("layers", "points") if getattr(request, field) is not None]
    if (
        chosen_fields
        and regularizers
        and not any(option_applies(chosen_fields[0], [regularizer], None) for regularizer in regularizers)
    ):
        sentence = (
            f"{capitalized(REGULARIZERS[next(iter(regularizers))].name)} sees the input embedding matrix and no hidden "
            "states, so it has no layers and no points to choose: leave both out, or add a regularizer that has them."
        )
        errors.append(FieldError(chosen_fields[0], sentence))
    if errors:
        raise combine_errors(errors)


def check_precision(runs: Collection[RunConfig], workers: Collection[Worker], grid: Collection[str]) -> None:
    devices = {worker.device for worker in workers if worker.alive}
    if devices and not has_gpu(workers) and any(run.precision is Precision.FP16 for run in runs):
        raise InvalidError(
            f"fp16 needs a worker with a GPU, and workers have only {', '.join(sorted(devices))}. Choose bf16 or fp32.",
            "grid" if "precision" in grid else "precision",
        )


def check_processes(context: Context, runs: Collection[RunConfig], grid: Collection[str]) -> None:
    """Raise InvalidError for more processes than this machine has cores, unless workers elsewhere are alive."""
    requested, cores, own_slot = max(run.processes for run in runs), machine_cores(), slot_name(context.settings, "cpu")
    if requested > cores and all(worker.slot == own_slot for worker in list_workers(context) if worker.alive):
        raise InvalidError(
            f"Expected at most {plural(cores, 'process', 'processes')}, one for each core of this machine, got "
            f"{requested}. Choose fewer, or start a worker on a machine with more.",
            "grid" if "processes" in grid else "processes",
        )


def check_run(run: RunConfig, model: ModelChoice, grid: Collection[str]) -> None:
    """Raise InvalidError for a run that cannot be trained as configured, at the field or the grid."""
    penalties = [REGULARIZERS[regularizer] for regularizer in run.penalty_weights]
    layers = run.layers if isinstance(run.layers, list) and model.layers else []
    missing_layer = next((layer for layer in layers if layer > (model.layers or 0)), None)
    row_penalty = next((penalty for penalty in penalties if not penalty.tokens), None)
    class_penalty = next((penalty for penalty in penalties if penalty.classes), None)
    if missing_layer is not None:
        field = "layers"
        sentence = f"{model.name} has layers 1 to {model.layers}, got {missing_layer}."
    elif row_penalty and run.points is TokenPooling.TOKENS:
        field = "points"
        sentence = (
            f"Expected points as sentence or mean for {row_penalty.name}, got tokens: it needs independent rows, and "
            "tokens of one text depend on each other. Sweep it separately from regularizers that see tokens."
        )
    elif class_penalty and run.task is not TaskKind.CLASSIFICATION and run.entropy_by_label:
        field = "entropy_by_label"
        sentence = (
            f"{capitalized(class_penalty.name)} cannot be taken within each class, because {run.task} has no classes: "
            "set `entropy_by_label` to false, so that it is taken of the whole batch."
        )
    elif run.task is TaskKind.SPAN and run.stride >= run.max_length:
        field = "stride"
        sentence = f"Expected a stride below the {run.max_length} tokens of a window, got {run.stride}."
    else:
        return
    raise InvalidError(sentence, "grid" if field in grid else field)


def list_plan_notes(request: SweepRequest, product: Product, n_repeated: int) -> list[str]:
    """Return notes on the planned runs and on the ``n_repeated`` runs left out as repetitions."""
    if not product.ranges_by_regularizer:
        notes = ["No regularizer is selected, so all runs are baselines."]
    elif not product.lambdas:
        notes = ["λ = 0 is the only λ, so all runs are baselines."]
    elif 0.0 not in request.lambdas:
        notes = ["The λ = 0 baseline was added, one run for each seed and setting."]
    else:
        notes = []
    values_by_label: list[tuple[str, Sequence[Any]]] = [
        ("λ", request.lambdas),
        ("ζ", request.zetas),
        ("Seed", request.seeds),
        *((OPTIONS[name].label, values) for name, values in request.grid.items()),
    ]
    for label, values in values_by_label:
        repeated_value = next((value for index, value in enumerate(values) if value in values[:index]), None)
        if repeated_value is not None:
            text = f"{repeated_value:g}" if isinstance(repeated_value, float) else repeated_value
            notes.append(f"{label} {text} is given more than once and counts once.")
    if n_repeated:
        notes.append(
            "1 run is left out, because the values in which it differs have no effect on it."
            if n_repeated == 1
            else f"{count(n_repeated)} runs are left out, because the values in which they differ have no effect on "
            "them."
        )
    if product.ranges_by_regularizer and product.lambdas:
        # What the sweep cannot show, whatever its results.
        n_lambdas, n_seeds = len({0.0, *request.lambdas}), len(set(request.seeds))
        if n_lambdas < (n_needed := min_lambdas()):
            notes.append(
                f"{n_lambdas} values of λ cannot show whether performance goes with isotropy. Use {n_needed} or more, "
                "λ = 0 included."
            )
        if n_seeds < MIN_SEEDS:
            notes.append(f"{plural(n_seeds, 'seed')} cannot give a verdict on any λ. Use {MIN_SEEDS} or more.")
    return notes


def list_row_notes(dataset: Dataset, runs: Sequence[RunConfig]) -> list[str]:
    """Return notes on too few rows and on validation rows of a single class."""
    notes = []
    for split, available, requested in (
        ("train", dataset.n_train, max((run.train_rows or 0 for run in runs), default=0)),
        ("validation", dataset.n_validation, max((run.validation_rows or 0 for run in runs), default=0)),
    ):
        if available is not None and requested > available:
            notes.append(
                f"{count(requested)} {split} rows are requested but there are only {count(available)}: all are used."
            )
    labels = {run.label_column for run in runs if run.task is TaskKind.CLASSIFICATION}
    notes += [
        f"Every validation row is of the class {quote(label)}, so a model that always predicts it scores best. Use a "
        "data set whose validation rows are of several classes."
        for column in dataset.columns or []
        if column.name in labels and (label := column.only_class) is not None
    ]
    return notes
