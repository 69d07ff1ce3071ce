"""A sweep as a product of the values in which its runs differ. A factor multiplies only the runs that it affects."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from math import prod
from typing import Annotated, Any, NamedTuple

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from app.db.config import OPTIONS, TRAINING_OPTIONS, TrainingOptions, regularizers_reading
from app.db.options.option import lowercase_label
from isoscope.core.formatting import count, plural
from isotropy.catalog import REGULARIZERS, Regularizer

MAX_VALUES = 50
ZETA = "zeta"
GRID_FIELDS = tuple(name for name, option in TRAINING_OPTIONS.items() if option.in_grid)
"""Training options allowed in a grid. All others must be equal for runs to be comparable."""


class _GridSchema:
    """The schema of grid values: each is validated as the training option of its name."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {}
        for name in GRID_FIELDS:
            option = TrainingOptions.model_fields[name]
            value = Annotated[option.annotation, *option.metadata]  # type: ignore[name-defined]
            values = handler.generate_schema(Annotated[list[value], Field(min_length=1, max_length=MAX_VALUES)])
            fields[name] = core_schema.typed_dict_field(values, required=False)
        return core_schema.typed_dict_schema(fields, extra_behavior="forbid")


Grid = Annotated[dict[str, list[Any]], _GridSchema()]
Ranges = Mapping[str, Sequence[Any]]


class Product(NamedTuple):
    """Shared settings x (one baseline + each regularizer x its own settings x lambdas) x seeds."""

    shared_ranges: Ranges
    """Values by field, for fields that the baseline also reads."""
    ranges_by_regularizer: dict[Regularizer, Ranges]
    """Values by field, for fields that only the regularizer reads, such as zeta."""
    lambdas: list[float]
    """Ascending, without 0."""
    seeds: list[int]

    @property
    def total(self) -> int:
        n_combinations = sum(prod(map(len, ranges.values())) for ranges in self.ranges_by_regularizer.values())
        runs_per_setting = 1 + n_combinations * len(self.lambdas)
        return prod(map(len, self.shared_ranges.values())) * runs_per_setting * len(self.seeds)

    def run_settings(self) -> Iterator[dict[str, Any]]:
        for setting, seed in product(_combinations(self.shared_ranges), self.seeds):
            yield setting | {"regularizer": Regularizer.NONE, "lam": 0.0, "seed": seed}
            for regularizer, ranges in self.ranges_by_regularizer.items():
                for own_values, lam in product(_combinations(ranges), self.lambdas):
                    yield setting | own_values | {"regularizer": regularizer, "lam": lam, "seed": seed}

    def describe(self, n_repeated: int = 0) -> str:
        """Return, without ``n_repeated`` runs: 2 rates × (1 baseline + I-STAR × 6 λ × 4 ζ) × 5 seeds = 250 runs."""
        terms = ["1 baseline"]
        groups = groupby(self.ranges_by_regularizer.items(), key=lambda item: _factor_texts(item[1]))
        for own_factors, group in groups if self.lambdas else ():
            names = [REGULARIZERS[regularizer].name for regularizer, _ in group]
            label = names[0] if len(names) == 1 else f"{len(names)} methods"
            terms.append(" × ".join([label, f"{len(self.lambdas)} λ", *own_factors]))
        runs = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
        factors = [*_factor_texts(self.shared_ranges), runs, plural(len(self.seeds), "seed")]
        repeated_term = f" − {count(n_repeated)} repeated" if n_repeated else ""
        return f"{' × '.join(factors)}{repeated_term} = {plural(self.total - n_repeated, 'run')}"


def build_product(
    ranges: Ranges,
    regularizers: Sequence[Regularizer],
    fixed_regularizers: frozenset[Regularizer],
    lambdas: Sequence[float],
    seeds: Sequence[int],
) -> Product:
    """Return the product of ranges. Every run has ``fixed_regularizers``, so the baseline reads their options, too."""
    # Fields that the baseline does not read, with the regularizers that read them.
    readers_by_field = {
        name: readers
        for name in ranges
        if (readers := regularizers_reading(name)) and not fixed_regularizers.intersection(readers)
    }
    return Product(
        shared_ranges={name: values for name, values in ranges.items() if name not in readers_by_field},
        ranges_by_regularizer={
            regularizer: {name: ranges[name] for name, readers in readers_by_field.items() if regularizer in readers}
            for regularizer in REGULARIZERS
            if regularizer in regularizers
        },
        lambdas=sorted({lam for lam in lambdas if lam}),
        seeds=list(dict.fromkeys(seeds)),
    )


def _combinations(ranges: Ranges) -> list[dict[str, Any]]:
    return [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())]


def _factor_texts(ranges: Ranges) -> tuple[str, ...]:
    """Return the number and plural of each field with several values, such as "2 rates"."""
    return tuple(
        f"{len(values)} {OPTIONS[name].plural or f'{lowercase_label(OPTIONS[name].label)} values'}"
        for name, values in ranges.items()
        if len(values) > 1
    )
