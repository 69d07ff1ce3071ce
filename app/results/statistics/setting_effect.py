"""Test whether settings differ at all, by an F statistic with permutations within blocks."""

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import permutations
from math import factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_EXACT = 10_000
MOST_DRAWN = 9_999
FEWEST_DRAWN = 999
MOST_PLACES = 2_000_000
"""Maximum number of values moved in all draws. With many runs, fewer rearrangements are drawn, to keep pages fast."""
AT_ONCE = 500_000
"""Number of values in memory at a time."""

Indices = npt.NDArray[np.intp]


class Rearrangements(NamedTuple):
    """Permutations of values within their blocks. A value alone in its block does not move."""

    blocks: list[Indices]
    """Indices of the values in each block that has several."""
    total: int
    exact: bool
    """Whether all permutations are enumerated, including the observed one; otherwise they are random."""

    @property
    def indices(self) -> Indices:
        """Return the indices of values that can move, in the order of the columns of ``orders``."""
        return np.concatenate(self.blocks) if self.blocks else np.empty(0, np.intp)

    def orders(self) -> Iterator[Indices]:
        """Yield batches of rearrangements, one per row: the indices of the values that move to ``indices``."""
        batch_size = max(1, AT_ONCE // max(len(self.indices), 1))
        random = np.random.default_rng(0)
        for start in range(0, self.total, batch_size):
            rows = min(batch_size, self.total - start)
            parts = (
                self._enumerate_orders(start, rows)
                if self.exact
                else [_random_orders(block, rows, random) for block in self.blocks]
            )
            yield np.concatenate(parts, axis=1) if parts else np.empty((rows, 0), np.intp)

    def p_value(self, extreme: int) -> float:
        """Return the p-value for a number of rearrangements that are at least as extreme as the observed values.

        If rearrangements are random, the observed order counts as one more.
        """
        return extreme / self.total if self.exact else (extreme + 1) / (self.total + 1)

    @property
    def smallest_p(self) -> float:
        """Return the smallest two-sided p-value that can be reached."""
        return min(1.0, 2 / (self.total + (not self.exact)))

    def _enumerate_orders(self, start: int, rows: int) -> list[Indices]:
        numbers = np.arange(start, start + rows)
        parts = []
        for block in self.blocks:
            numbers, order_index = np.divmod(numbers, factorial(len(block)))
            parts.append(np.array(list(permutations(block)))[order_index])
        return parts


def rearrangements(blocks: Sequence[Hashable]) -> Rearrangements:
    """Return the rearrangements of values within their blocks: all of them, or random ones if there are too many."""
    indices_by_block: dict[Hashable, list[int]] = {}
    for index, block in enumerate(blocks):
        indices_by_block.setdefault(block, []).append(index)
    members = [np.array(indices, np.intp) for indices in indices_by_block.values() if len(indices) > 1]
    if (total := _count_rearrangements(members)) <= MOST_EXACT:
        return Rearrangements(members, total, exact=True)
    draws = min(MOST_DRAWN, max(FEWEST_DRAWN, MOST_PLACES // len(blocks)))
    return Rearrangements(members, draws, exact=False)


def _count_rearrangements(members: Sequence[Indices]) -> int:
    """Count rearrangements up to a limit, because a factorial of a thousand runs has thousands of digits."""
    return reduce(lambda total, block: min(total * factorial(min(len(block), 8)), MOST_EXACT + 1), members, 1)


def _random_orders(block: Indices, rows: int, random: np.random.Generator) -> Indices:
    return random.permuted(np.tile(block, (rows, 1)), axis=1)


ROUNDING = 1e-9

Values = npt.NDArray[np.float64]


class ScoredRun(NamedTuple):
    """The performance of one setting with one seed."""

    block: Hashable
    """Data set, model and metric. Runs of different blocks are never compared."""
    setting: Hashable
    seed: int
    value: float


class SettingEffect(NamedTuple):
    """F of the settings, adjusted for the seeds, or the reason why there is none."""

    f: float | None
    """None where settings and seeds explain everything."""
    degrees: tuple[int, int]
    p: float | None
    permutations: int
    exact: bool
    smallest_p: float | None
    """Smallest p that this layout can reach."""
    settings: int
    seeds: int
    reason: str | None = None


@lru_cache(maxsize=64)
def setting_effect(runs: tuple[ScoredRun, ...]) -> SettingEffect:
    """Test whether the settings differ, by permuting performance within each seed of each block.

    If settings do not differ, it does not matter which run of a seed had which setting. There is at most one run per
    setting and seed. Runs may be missing: settings are adjusted for their seeds.
    """
    blocks = [_block([run for run in runs if run.block == block]) for block in dict.fromkeys(run.block for run in runs)]
    n_settings = len({(run.block, run.setting) for run in runs})
    n_seeds = len({run.seed for run in runs})
    valid_blocks = [block for block in blocks if block is not None]
    degrees = sum(block.basis.shape[1] for block in valid_blocks), sum(block.residual_degrees for block in valid_blocks)
    if degrees[1] < 1 or degrees[0] < 1:
        reason = "To test whether settings differ, finish two settings with the same two seeds."
        return SettingEffect(None, degrees, None, 0, True, None, n_settings, n_seeds, reason)
    values = np.concatenate([block.values for block in valid_blocks])
    total = float(values @ values)
    if total == 0:
        reason = "All runs of a seed have the same performance, whatever their setting."
        return SettingEffect(None, degrees, None, 0, True, None, n_settings, n_seeds, reason)
    moved = rearrangements([key for block in valid_blocks for key in block.keys])
    basis = _join_diagonally([block.basis for block in valid_blocks])
    explained = float(((values @ basis) ** 2).sum())
    n_extreme, fixed_values = 0, values.copy()
    fixed_values[moved.indices] = 0
    for orders in moved.orders():
        null = fixed_values @ basis + values[orders] @ basis[moved.indices]
        n_extreme += int(((null**2).sum(axis=1) >= explained - ROUNDING * total).sum())
    residual = total - explained
    f = None if residual <= ROUNDING * total else (explained / degrees[0]) / (residual / degrees[1])
    alike = float(np.prod([block.n_equivalent for block in valid_blocks]))
    smallest = min(1.0, alike / moved.total) if moved.exact else 1 / (moved.total + 1)
    return SettingEffect(f, degrees, moved.p_value(n_extreme), moved.total, moved.exact, smallest, n_settings, n_seeds)


class _Block(NamedTuple):
    values: Values
    """Centered by seed, and scaled so that blocks with different metrics count equally."""
    basis: Values
    """Orthonormal basis of what settings can explain beyond seeds."""
    residual_degrees: int
    keys: list[tuple[Hashable, int]]
    n_equivalent: float
    """Number of permutations that leave F unchanged, because they exchange complete settings."""


def _block(runs: Sequence[ScoredRun]) -> _Block | None:
    settings = {setting: index for index, setting in enumerate(dict.fromkeys(run.setting for run in runs))}
    seeds = {seed: index for index, seed in enumerate(dict.fromkeys(run.seed for run in runs))}
    setting_indices = np.array([settings[run.setting] for run in runs])
    seed_indices = np.array([seeds[run.seed] for run in runs])
    values = _center_by_seed(np.array([run.value for run in runs], float)[:, None], seed_indices)[:, 0]
    columns = _center_by_seed(np.eye(len(settings))[setting_indices], seed_indices)
    left_vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    basis = left_vectors[:, sizes > ROUNDING * max(1.0, float(sizes.max(initial=0.0)))]
    residual_degrees = len(runs) - len(seeds) - basis.shape[1]
    if not basis.shape[1]:
        return None
    degrees = len(runs) - len(seeds)
    size = float(np.sqrt((values @ values) / degrees))
    patterns: dict[frozenset[int], int] = {}
    for setting in range(len(settings)):
        pattern = frozenset(seed_indices[setting_indices == setting].tolist())
        patterns[pattern] = patterns.get(pattern, 0) + 1
    alike = float(np.prod([float(factorial(min(n_settings, 20))) for n_settings in patterns.values()]))
    return _Block(values / (size or 1.0), basis, residual_degrees, [(run.block, run.seed) for run in runs], alike)


def _center_by_seed(values: Values, seeds: npt.NDArray[np.intp]) -> Values:
    """Subtract the mean of each seed.

    A value of the seed is subtracted first, so that equal values give exactly 0.
    """
    centred = np.empty_like(values)
    for seed in np.unique(seeds):
        is_seed = seeds == seed
        shifted = values[is_seed] - values[is_seed][0]
        centred[is_seed] = shifted - shifted.mean(axis=0)
    return centred


def _join_diagonally(parts: Sequence[Values]) -> Values:
    matrix = np.zeros((sum(len(part) for part in parts), sum(part.shape[1] for part in parts)))
    row = column = 0
    for part in parts:
        matrix[row : row + len(part), column : column + part.shape[1]] = part
        row, column = row + len(part), column + part.shape[1]
    return matrix
