"""What is told beside the number of a sweep's runs: what was added, left out or asked for in vain."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.db.config import OPTIONS, RunConfig
from app.db.models import Dataset
from app.services.grid_expansion import Product
from isoscope.core.formatting import count


class Asked(NamedTuple):
    """The values that runs are to differ in, as they were typed."""

    lambdas: Sequence[float]
    zetas: Sequence[float]
    seeds: Sequence[int]
    grid: Mapping[str, Sequence[Any]]


def notes_of(asked: Asked, factors: Product, repeated: int) -> list[str]:
    """Return what there is to say of the runs; ``repeated`` of the product are left out."""
    if not factors.methods or not factors.lambdas:
        notes = ["There is no regularizer to sweep, so these are baselines alone."]
    elif 0.0 not in asked.lambdas:
        notes = ["The λ = 0 baseline was added, one run for each seed and setting."]
    else:
        notes = []
    notes += _given_twice(asked)
    if repeated:
        notes.append(
            f"{count(repeated)} would repeat another, because nothing in {'it' if repeated == 1 else 'them'} reads "
            f"what they differ in, and {'is' if repeated == 1 else 'are'} left out."
        )
    return notes


def notes_of_rows(dataset: Dataset, runs: Sequence[RunConfig]) -> list[str]:
    """Return which rows were asked for and are not there."""
    notes = []
    for which, there, wanted in (
        ("train", dataset.n_train, max((run.train_rows or 0 for run in runs), default=0)),
        ("validation", dataset.n_validation, max((run.validation_rows or 0 for run in runs), default=0)),
    ):
        if there is not None and wanted > there:
            notes.append(f"{count(wanted)} {which} rows are asked for and there are {count(there)}: all are taken.")
    return notes


def _given_twice(asked: Asked) -> list[str]:
    named: list[tuple[str, Sequence[Any]]] = [
        ("λ", asked.lambdas),
        ("ζ", asked.zetas),
        ("Seed", asked.seeds),
        *((OPTIONS[name].label, values) for name, values in asked.grid.items()),
    ]
    return [
        f"{name} {_shown(again)} is given more than once and counts once."
        for name, values in named
        if (again := next((one for place, one in enumerate(values) if one in values[:place]), None)) is not None
    ]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
