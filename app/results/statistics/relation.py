"""Test whether performance is related to isotropy across settings, by permuting the values of λ with all their runs."""

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import permutations
from math import factorial, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MIN_LAMBDAS = 3
MAX_EXACT_LAMBDAS = 7
MAX_EXACT_ARRANGEMENTS = 100_000
N_DRAWN = 9_999
ROUNDING = 1e-9

Values = npt.NDArray[np.float64]


class MeasuredRun(NamedTuple):
    """Isotropy and performance of one setting with one seed."""

    block: Hashable
    """Method, model and data set. Values of λ are permuted within a block."""
    stratum: Hashable
    """Settings crossed with λ, such as ζ or the learning rate. A shared baseline is in every stratum."""
    setting: Hashable
    """Identifies the setting, so that a baseline in several strata counts once."""
    lam: float
    seed: int
    isotropy: float
    performance: float


class Relation(NamedTuple):
    """A rank correlation over settings with its two-sided p, or the reason why there is none."""

    value: float | None  # the correlation
    p: float | None
    positive: bool
    lambdas: tuple[int, ...]
    """Number of values of λ that can be exchanged, for each group of exchangeable ones."""
    settings: int
    permutations: int
    exact: bool
    smallest_p: float | None
    """Smallest p that this many values of λ can reach."""
    reason: str | None = None


@lru_cache(maxsize=64)
def measure_relation(runs: tuple[MeasuredRun, ...]) -> Relation:
    """Return Spearman's correlation of isotropy and performance over settings, and p by permuting the values of λ.

    Both are adjusted for seeds and averaged over them. Ranks are taken among the settings of a block that differ only
    in λ. There is at most one run per setting, seed and stratum.
    """
    blocks = [
        _make_block([run for run in runs if run.block == block]) for block in dict.fromkeys(run.block for run in runs)
    ]
    n_settings = len({(run.block, run.setting) for run in runs})
    lambdas = tuple(len(indices) for block in blocks for indices in block.classes if len(indices) > 1)

    def make_undefined(reason: str, value: float | None = None) -> Relation:
        positive = (value or 0) > 0
        return Relation(value, None, positive, lambdas, n_settings, 0, exact=True, smallest_p=None, reason=reason)

    if not runs:
        return make_undefined("No run has both an IsoScore★ and a performance.")
    if max(len(block.lambdas) for block in blocks) < MIN_LAMBDAS:
        return make_undefined(f"A relation across settings needs {MIN_LAMBDAS} values of λ or more of one method.")
    for index, name in enumerate(("isotropy", "performance")):
        if all(block.sizes[index] == 0 for block in blocks):
            return make_undefined(f"All settings have the same {name}, so there is no relation.")
    norm = float(np.sqrt(prod(sum(block.sizes[index] for block in blocks) for index in (0, 1))))
    observed = sum(float(np.trace(block.scores)) for block in blocks)
    value = float(np.clip(observed / norm, -1, 1))
    if not lambdas:
        return make_undefined(
            "No two values of λ were run with the same other settings, so none can change places.", value
        )
    n_orders = prod(map(factorial, lambdas))
    exact = max(lambdas) <= MAX_EXACT_LAMBDAS and n_orders <= MAX_EXACT_ARRANGEMENTS
    fixed_sum = sum(
        float(block.scores[single[0], single[0]]) for block in blocks for single in block.classes if len(single) == 1
    )
    parts = _sum_by_class(blocks, exact=exact)
    # An exact null distribution has the sum of every choice of one value per part.
    add_parts = (lambda sums, part: np.add.outer(sums, part).ravel()) if exact else np.add
    null_values = fixed_sum + reduce(add_parts, parts, np.zeros(1 if exact else N_DRAWN))
    tolerance = ROUNDING * norm
    n_above = int((null_values >= observed - tolerance).sum())
    n_below = int((null_values <= observed + tolerance).sum())
    if exact:
        n_permutations, p, smallest = n_orders, 2 * min(n_above, n_below) / n_orders, 2 / n_orders
    else:  # the observed order counts as one more draw
        n_permutations, p, smallest = N_DRAWN, 2 * (min(n_above, n_below) + 1) / (N_DRAWN + 1), 2 / (N_DRAWN + 1)
    return Relation(
        value, min(1.0, p), n_above < n_below, lambdas, n_settings, n_permutations, exact, min(1.0, smallest)
    )


def adjust_means(settings: Sequence[Hashable], seeds: Sequence[int], values: Sequence[float]) -> dict[Hashable, float]:
    """Return the means of settings as if each had been run with every seed, by least squares of setting plus seed.

    Settings that share no seeds, not even through other settings, are assumed to have typical seeds.
    """
    distinct_settings, distinct_seeds = list(dict.fromkeys(settings)), list(dict.fromkeys(seeds))
    shifted = np.array(values, float) - values[0]  # smaller numbers lose fewer digits
    setting_design = np.array([[setting == column for column in distinct_settings] for setting in settings], float)
    seed_design = np.array([[seed == column for column in distinct_seeds] for seed in seeds], float)
    averaging = setting_design.T / setting_design.sum(0)[:, None]
    # Among equally good fits, take the smallest seed effects: 0 if seeds cannot be separated from settings.
    effects = np.linalg.lstsq(
        seed_design - setting_design @ (averaging @ seed_design),
        shifted - setting_design @ (averaging @ shifted),
        rcond=None,
    )[0]
    means = averaging @ (shifted - seed_design @ effects) + values[0]
    return dict(zip(distinct_settings, means.tolist(), strict=True))


class _Block(NamedTuple):
    """What permutations of the values of λ need to know of the runs of a block."""

    lambdas: list[float]
    scores: Values
    """[λ, λ]: the term of the statistic for isotropy at the first λ paired with performance at the second."""
    sizes: tuple[float, float]
    """Sums of squares of the ranks of isotropy and of performance."""
    classes: list[list[int]]
    """Groups of indices of λ that were run in the same strata. Only these are exchangeable."""


def _make_block(runs: Sequence[MeasuredRun]) -> _Block:
    distinct_runs = {(run.setting, run.seed): run for run in runs}.values()
    settings, seeds = [run.setting for run in distinct_runs], [run.seed for run in distinct_runs]
    isotropy = adjust_means(settings, seeds, [run.isotropy for run in distinct_runs])
    performance = adjust_means(settings, seeds, [run.performance for run in distinct_runs])
    lambdas = sorted({run.lam for run in runs})
    n_strata = {setting: len({run.stratum for run in runs if run.setting == setting}) for setting in isotropy}
    scores, sizes = np.zeros((len(lambdas), len(lambdas))), np.zeros(2)
    strata: dict[Hashable, dict[int, Hashable]] = {}
    for run in runs:
        strata.setdefault(run.stratum, {})[lambdas.index(run.lam)] = run.setting
    for setting_by_index in strata.values():
        indices = np.array(sorted(setting_by_index))
        ordered_settings = [setting_by_index[index] for index in indices]
        # A baseline shared by m strata enters as m equal values. The weight makes them vary like m other settings.
        weights = np.array([n_strata[setting] ** -0.5 for setting in ordered_settings])
        isotropy_ranks = _rank([isotropy[setting] for setting in ordered_settings], weights)
        performance_ranks = _rank([performance[setting] for setting in ordered_settings], weights)
        scores[np.ix_(indices, indices)] += np.outer(weights * isotropy_ranks, performance_ranks)
        sizes += [float(weights @ ranks**2) for ranks in (isotropy_ranks, performance_ranks)]
    classes: dict[frozenset[Hashable], list[int]] = {}
    for index in range(len(lambdas)):
        strata_of_lambda = frozenset(stratum for stratum, by_index in strata.items() if index in by_index)
        classes.setdefault(strata_of_lambda, []).append(index)
    return _Block(lambdas, scores, (float(sizes[0]), float(sizes[1])), list(classes.values()))


def _rank(values: Sequence[float], weights: Values) -> Values:
    """Return ranks / (n + 1), less their weighted mean. Values that differ only by rounding are tied."""
    array = np.array(values, float)
    rounded = np.round(array - array[0], 12 - int(np.ceil(np.log10(np.abs(array).max() or 1.0))))
    _, rank_index, tie_counts = np.unique(rounded, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(tie_counts) - (tie_counts - 1) / 2)[rank_index] / (len(values) + 1)
    return np.asarray(ranks - (weights @ ranks) / weights.sum(), float)


def _sum_by_class(blocks: Sequence[_Block], *, exact: bool) -> Iterator[Values]:
    """Yield the sum of scores of each class of λ by permutation: all permutations, or ``N_DRAWN`` random ones."""
    random = np.random.default_rng(0)
    for block in blocks:
        for indices in map(np.array, block.classes):
            if len(indices) == 1:
                continue
            scores = block.scores[np.ix_(indices, indices)]
            if exact:
                orders = _list_orders(len(indices))
            else:
                orders = random.permuted(np.tile(np.arange(len(indices)), (N_DRAWN, 1)), axis=1)
            yield scores[np.arange(len(indices)), orders].sum(axis=1)


@lru_cache(maxsize=MAX_EXACT_LAMBDAS)
def _list_orders(n: int) -> npt.NDArray[np.intp]:
    return np.array(list(permutations(range(n))))
