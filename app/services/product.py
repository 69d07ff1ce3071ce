"""A sweep as a product of what its runs differ in: each factor multiplies the runs that it makes a difference to."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from math import prod
from typing import Any, NamedTuple

from app.db.regularizer_options import READERS, Regularizer
from app.numerals import count, plural
from app.regularizers import METHODS
from app.services.grid import NOUNS

Ranges = Mapping[str, Sequence[Any]]
"""Values by field."""


class Product(NamedTuple):
    """Settings x (one baseline + each method x its own settings x lambdas) x seeds."""

    settings: Ranges
    """Of fields that make a difference to the baseline, too."""
    methods: dict[Regularizer, Ranges]
    """Of each regularizer its own further settings, zeta among them."""
    lambdas: list[float]
    """Ascending, without 0."""
    seeds: list[int]

    @property
    def total(self) -> int:
        """How many runs there are, without listing them."""
        with_penalty = sum(_size(own) * len(self.lambdas) for own in self.methods.values())
        return _size(self.settings) * (1 + with_penalty) * len(self.seeds)

    def coordinates(self) -> Iterator[dict[str, Any]]:
        """What sets each run apart: setting by setting and seed by seed, the baseline first."""
        for setting, seed in product(_points(self.settings), self.seeds):
            yield setting | {"regularizer": Regularizer.NONE, "lam": 0.0, "seed": seed}
            for regularizer, ranges in self.methods.items():
                for own, lam in product(_points(ranges), self.lambdas):
                    yield setting | own | {"regularizer": regularizer, "lam": lam, "seed": seed}

    def words(self, repeated: int = 0) -> str:
        """The count with its factors: 2 rates × (1 baseline + I-STAR × 6 λ × 4 ζ) × 5 seeds = 250 runs.

        Less those that would repeat another.
        """
        terms = ["1 baseline"]
        by_size = groupby(self.methods.items() if self.lambdas else (), key=lambda item: _factors(item[1]))
        for own, group in by_size:
            names = [METHODS[regularizer].name for regularizer, _ in group]
            who = names[0] if len(names) == 1 else f"{len(names)} methods"
            terms.append(" × ".join([who, f"{len(self.lambdas)} λ", *own]))
        runs = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
        factors = [*_factors(self.settings), runs, plural(len(self.seeds), "seed")]
        less = f" − {count(repeated)} repeated" if repeated else ""
        return f"{' × '.join(factors)}{less} = {plural(self.total - repeated, 'run')}"


def product_of(
    ranges: Ranges,
    regularizers: Sequence[Regularizer],
    beside: frozenset[Regularizer],
    lambdas: Sequence[float],
    seeds: Sequence[int],
) -> Product:
    """The product of ranges, each where it makes a difference.

    A setting of a regularizer that stands beside every run makes one to the baseline as well.
    """
    own = {name: READERS[name] for name in ranges if name in READERS and not READERS[name] & beside}
    return Product(
        settings={name: values for name, values in ranges.items() if name not in own},
        methods={
            regularizer: {name: ranges[name] for name, readers in own.items() if regularizer in readers}
            for regularizer in METHODS
            if regularizer in regularizers
        },
        lambdas=sorted({lam for lam in lambdas if lam}),
        seeds=list(dict.fromkeys(seeds)),
    )


def _size(ranges: Ranges) -> int:
    return prod(len(values) for values in ranges.values())


def _points(ranges: Ranges) -> list[dict[str, Any]]:
    return [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())]


def _factors(ranges: Ranges) -> tuple[str, ...]:
    return tuple(f"{len(values)} {NOUNS[name]}" for name, values in ranges.items() if len(values) > 1)
