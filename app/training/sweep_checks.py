"""Refuse settings of a sweep that contradict each other, and tell what was added or left out."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from app.core.evidence import FEWEST_SEEDS, lambdas_needed
from app.db.config import OPTIONS, RunConfig, TrainingOptions, applies, applies_to
from app.db.models import Dataset
from app.db.options.training import Precision
from app.training.grid_expansion import Product
from app.training.models import ModelChoice
from app.training.queue_status import WorkerState, has_gpu
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import capitalized, count, plural, quote
from isoscope.core.task import TaskKind
from isotropy.catalog import REGULARIZERS, Regularizer, TokenPooling


def check_combination(swept: Collection[Regularizer], fixed: Collection[Regularizer]) -> None:
    """Raise InvalidError where a regularizer has two lambdas in one run."""
    if clashing := [
        REGULARIZERS[regularizer].name for regularizer in REGULARIZERS if regularizer in swept and regularizer in fixed
    ]:
        raise InvalidError(
            f"{clashing[0]} is swept over λ and also added to every run, so it would have two λ in one run. "
            "Take it out of one of the two.",
            "fixed_regularizers",
        )


def check_grid(
    fields: Collection[str], regularizers: Collection[Regularizer], points: Collection[TokenPooling | None]
) -> None:
    """Raise InvalidError where a grid ranges over what no run of the sweep reads, or over two lengths.

    ``points`` are all that runs of the sweep may see, None for those of a regularizer's paper.
    """
    if {"epochs", "max_steps"} <= set(fields):
        raise InvalidError("Expected a grid over either `epochs` or `max_steps`, got both; take one out.", "grid")
    for field in fields:
        if not any(applies(field, regularizers, visible_points) for visible_points in points):
            readers = " or ".join(
                method.name for slug, method in REGULARIZERS.items() if slug in (applies_to(field) or ())
            )
            tokens = ", where it sees tokens" if OPTIONS[field].of_tokens else ""
            raise InvalidError(
                f"The grid ranges over `{field}`, an option of {readers}{tokens}, and the sweep has none of it. "
                "Add the regularizer, or take the option out of the grid.",
                "grid",
            )


def check_hidden_states(options: TrainingOptions, regularizers: Collection[Regularizer]) -> None:
    """Raise InvalidError where layers or points are chosen and no regularizer of the sweep sees any."""
    chosen = [field for field in ("layers", "points") if getattr(options, field) is not None]
    if chosen and regularizers and not any(applies(chosen[0], [regularizer], None) for regularizer in regularizers):
        raise InvalidError(
            f"{capitalized(REGULARIZERS[next(iter(regularizers))].name)} sees the input embedding matrix and no hidden "
            "states, so it has no layers and no points to choose: leave both out, or add a regularizer that has them.",
            chosen[0],
        )


def check_precision(runs: Collection[RunConfig], workers: Collection[WorkerState], grid: Collection[str]) -> None:
    """Raise InvalidError where runs are to train in fp16 and no worker that lives can; of none nothing is known."""
    alive = [worker.device for worker in workers if worker.alive]
    if alive and not has_gpu(workers) and any(run.precision is Precision.FP16 for run in runs):
        raise InvalidError(
            f"Expected a worker with a GPU to train in fp16, got {', '.join(sorted(set(alive)))} alone. "
            "Choose bf16 or fp32.",
            "grid" if "precision" in grid else "precision",
        )


def check_run(run: RunConfig, model: ModelChoice, grid: Collection[str]) -> None:
    """Raise InvalidError, at the field or at the grid that has it, for a run that could not do what it says."""
    for field, sentence in (
        ("layers", _layers_there_are(run, model)),
        ("points", _independent_rows(run)),
        ("entropy_by_label", _classes_to_group_by(run)),
        ("stride", _windows_that_move(run)),
    ):
        if sentence:
            raise InvalidError(sentence, "grid" if field in grid else field)


def _layers_there_are(run: RunConfig, model: ModelChoice) -> str | None:
    beyond = (
        [layer for layer in run.layers if layer > model.layers] if isinstance(run.layers, list) and model.layers else []
    )
    if not beyond:
        return None
    return f"Expected layers from 1 to {model.layers}, which is what {model.name} has, got {beyond[0]}."


def _independent_rows(run: RunConfig) -> str | None:
    refusing = next((penalty for penalty in map(REGULARIZERS.__getitem__, run.weights) if not penalty.tokens), None)
    if refusing is None or run.points is not TokenPooling.TOKENS:
        return None
    return (
        f"Expected points as sentence or mean for {refusing.name}, got tokens: it holds for rows that do not depend "
        "on each other, and the tokens of one text do. Sweep it apart from regularizers that are to see tokens."
    )


def _classes_to_group_by(run: RunConfig) -> str | None:
    grouped = next((penalty for penalty in map(REGULARIZERS.__getitem__, run.weights) if penalty.classes), None)
    if grouped is None or run.task is TaskKind.CLASSIFICATION or not run.entropy_by_label:
        return None
    return (
        f"{capitalized(grouped.name)} cannot be taken within each class, because {run.task} has no classes: "
        "set `entropy_by_label` to false, so that it is taken of the whole batch."
    )


def _windows_that_move(run: RunConfig) -> str | None:
    if run.task is not TaskKind.SPAN or run.stride < run.max_length:
        return None
    return f"Expected a stride below the {run.max_length} tokens of a window, got {run.stride}."


class SweepRanges(NamedTuple):
    """The values that runs are to differ in, as they were typed."""

    lambdas: Sequence[float]
    zetas: Sequence[float]
    seeds: Sequence[int]
    grid: Mapping[str, Sequence[Any]]


def notes_of(ranges: SweepRanges, factors: Product, repeated: int) -> list[str]:
    """Return what there is to say of the runs; ``repeated`` of the product are left out."""
    if not factors.methods:
        notes = ["No regularizer is selected, so all runs are baselines."]
    elif not factors.lambdas:
        notes = ["λ = 0 is the only λ, so all runs are baselines."]
    elif 0.0 not in ranges.lambdas:
        notes = ["The λ = 0 baseline was added, one run for each seed and setting."]
    else:
        notes = []
    notes += _given_twice(ranges)
    if repeated:
        notes.append(
            f"{count(repeated)} would repeat another, because nothing in {'it' if repeated == 1 else 'them'} reads "
            f"what they differ in, and {'is' if repeated == 1 else 'are'} left out."
        )
    return [*notes, *_notes_of_evidence(ranges, factors)]


def _notes_of_evidence(ranges: SweepRanges, factors: Product) -> list[str]:
    """Return what the sweep cannot show, however its runs turn out."""
    if not factors.methods or not factors.lambdas:
        return []
    notes, lambdas, seeds = [], len({0.0, *ranges.lambdas}), len(set(ranges.seeds))
    if lambdas < (enough := lambdas_needed()):
        notes.append(
            f"{lambdas} values of λ cannot show whether performance goes with isotropy. Use {enough} or more, "
            "λ = 0 included."
        )
    if seeds < FEWEST_SEEDS:
        notes.append(f"{plural(seeds, 'seed')} cannot give a verdict on any λ. Use {FEWEST_SEEDS} or more.")
    return notes


def notes_of_rows(dataset: Dataset, runs: Sequence[RunConfig]) -> list[str]:
    """Return which rows were asked for and are not there, and whether all validation rows are of one class."""
    notes = []
    for split, available, requested in (
        ("train", dataset.n_train, max((run.train_rows or 0 for run in runs), default=0)),
        ("validation", dataset.n_validation, max((run.validation_rows or 0 for run in runs), default=0)),
    ):
        if available is not None and requested > available:
            notes.append(
                f"{count(requested)} {split} rows are asked for but there are only {count(available)}: all are used."
            )
    labels = {run.label_column for run in runs if run.task is TaskKind.CLASSIFICATION}
    notes += [
        f"Every validation row is of the class {quote(only)}, so a model that always predicts it scores best. Use a "
        "data set whose validation rows are of several classes."
        for column in dataset.columns or []
        if column.name in labels and (only := column.only_class) is not None
    ]
    return notes


def _given_twice(ranges: SweepRanges) -> list[str]:
    labelled: list[tuple[str, Sequence[Any]]] = [
        ("λ", ranges.lambdas),
        ("ζ", ranges.zetas),
        ("Seed", ranges.seeds),
        *((OPTIONS[name].label, values) for name, values in ranges.grid.items()),
    ]
    return [
        f"{name} {_text_of(again)} is given more than once and counts once."
        for name, values in labelled
        if (again := next((value for index, value in enumerate(values) if value in values[:index]), None)) is not None
    ]


def _text_of(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
