"""The value of a measure with its standard error, or the reason why it has none.

Standard errors come from one pass over the rows: a jackknife over blocks, with each group of rows in one block.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FEWEST_FOR_SE = 20  # Minimum number of points for a standard error; with fewer, the error itself is too uncertain
OUT_OF_RANGE = "In the units of the points the value is beyond the range of float64. Scale them all by one factor."
# Number of blocks if memory allows. A standard error from B blocks is itself uncertain by 1 / sqrt(2 (B - 1)), 24%.
BLOCKS = 10
MAX_BYTES = 512 * 2**20  # Memory for the parts of all blocks


@dataclass(frozen=True)
class Score:
    """A finite value, or None with the reason why the measure is undefined, in one sentence."""

    value: float | None
    reason: str | None = None
    se: float | None = None  # Standard error of the value, in its units, where one is known
    # Each block's part of the error, if it comes from blocks: see `error_parts`.
    parts: tuple[float, ...] = ()

    @classmethod
    def clipped(cls, value: float, low: float, high: float) -> "Score":
        """Return a score clipped to [low, high], because rounding may carry the value outside; undefined for NaN."""
        if math.isnan(value):
            return cls.undefined("The value is not a number: its inputs are not finite, or too large.")
        return cls(float(min(max(value, low), high)))

    def with_error(self, parts: Sequence[float]) -> "Score":
        """Return the score with the standard error of some blocks' parts: see ``error_parts``. No parts: no error."""
        return replace(self, se=math.hypot(*parts) if parts else None, parts=tuple(parts))

    def times(self, *factors: float) -> "Score":
        """Multiply value and error by factors, to convert units; undefined if a product leaves float64."""
        if self.value is None or all(factor == 1 for factor in factors):
            return self
        value, se = (math.prod((number or 0.0, *factors)) for number in (self.value, self.se))
        if not math.isfinite(value) or not math.isfinite(se) or (value == 0) != (self.value == 0):
            return Score.undefined(OUT_OF_RANGE)
        parts = tuple(math.prod((part, *factors)) for part in self.parts)
        return Score(value, se=None if self.se is None else se, parts=parts)

    @classmethod
    def undefined(cls, reason: str) -> "Score":
        return cls(None, reason)


def there_are(n: int) -> str:
    """Return "there is 1", "there are 3" and so on, to end a reason."""
    return f"there {'is' if n == 1 else 'are'} {n}"


class MergeableMoments(Protocol):
    """Mergeable moments, such as ``Moments``, ``FourthMoments`` and ``CosineMoments``."""

    n: int

    def update(self, x: Tensor) -> None: ...

    def merge(self, moments: Self) -> None: ...


P = TypeVar("P", bound=MergeableMoments)


def count_blocks_in_memory(numbers: int) -> int:
    """Return the number of blocks, 1 to ``BLOCKS``, of ``numbers`` float64 values each that fit in ``MAX_BYTES``.

    Covariances (d^2 values) get 10 blocks up to d = 2590 and 2 up to 5792. Beyond, they get 1 and no standard error.
    """
    return max(1, min(BLOCKS, MAX_BYTES // (8 * max(numbers, 1))))


class Jackknife(Generic[P]):
    """Moments of a stream of n points by block, for statistics with each block left out.

    The caller deals rows, as ``deal_slices`` does, so that each group lies in one block; blocks may be unequal.
    ``empty`` returns moments of no points. Raises ValueError for fewer than 1 block.

    Slices count as independent, so the order of rows matters: for two classes, sorted or alternating, standard errors
    were 0.4 to 1.4 times those of shuffled rows; for rows sorted by value, 1.1 times (4,000 rows) and 3 times (40,000).
    """

    def __init__(self, empty: Callable[[], P], blocks: int = BLOCKS) -> None:
        if blocks < 1:
            raise ValueError(f"Expected at least 1 block, got {blocks}: 1 only sums, 2 and more have standard errors.")
        self._empty = empty
        self.blocks = blocks
        self.all_parts = [empty() for _ in range(blocks)]  # Moments of each block, also of empty ones

    @property
    def parts(self) -> list[P]:
        """Moments of the nonempty blocks, read-only."""
        return [part for part in self.all_parts if part.n > 0]

    def map(self, transform: Callable[[P], P]) -> "Jackknife[P]":
        """Return a copy with ``transform`` applied to the moments of each block."""
        mapped = copy(self)
        mapped.all_parts = [transform(part) for part in self.all_parts]
        empty = transform(self._empty())
        mapped._empty = lambda: deepcopy(empty)
        return mapped

    def update(self, x: Tensor, blocks: NDArray[np.int64]) -> None:
        """Add points [n, d] to their ``blocks`` [n]."""
        for block in np.unique(blocks).tolist():
            in_block = blocks == block
            self.all_parts[block].update(x if in_block.all() else x[torch.from_numpy(in_block)])

    def total(self) -> P:
        return self.all_parts[0] if self.blocks == 1 else self._merge(self.all_parts)

    def scores(
        self, statistics: Callable[[P], Mapping[str, Score]], n_independent: int | None = None
    ) -> dict[str, Score]:
        """Return the statistics of all points with standard errors by the delete-m jackknife (Busing et al. 1999).

        It assumes statistics that change smoothly with the points. There is no error for fewer than ``FEWEST_FOR_SE``
        points (or groups of them, ``n_independent``), for fewer than two blocks, and where a statistic is undefined
        without a block.
        """
        left_out = map(statistics, self._leave_each_out(self.parts, self._empty()))
        return self.with_errors(statistics(self.total()), left_out, n_independent)

    def with_errors(
        self, totals: Mapping[str, Score], left_out: Iterable[Mapping[str, Score]], n_independent: int | None = None
    ) -> dict[str, Score]:
        """Return ``totals`` with standard errors as ``scores`` does; ``left_out`` are statistics without each part."""
        parts = self.parts
        n = sum(part.n for part in parts)
        if min(n, n if n_independent is None else n_independent) < FEWEST_FOR_SE or len(parts) < 2:
            return dict(totals)
        shares = [part.n / n for part in parts]
        scores_left_out = list(left_out)
        return {
            name: score.with_error(error_parts(score, [scores[name] for scores in scores_left_out], shares))
            for name, score in totals.items()
        }

    def _leave_each_out(self, parts: Sequence[P], merged: P) -> Iterator[P]:
        """Yield, for each part, the merge of ``merged`` and all other parts: by halves, in B log B merges."""
        if len(parts) == 1:
            yield merged
            return
        half = len(parts) // 2
        yield from self._leave_each_out(parts[:half], self._merge([merged, *parts[half:]]))
        yield from self._leave_each_out(parts[half:], self._merge([merged, *parts[:half]]))

    def _merge(self, parts: Sequence[P]) -> P:
        merged = self._empty()
        for part in parts:
            merged.merge(part)
        return merged


def error_parts(total: Score, left_out: Sequence[Score], shares: Sequence[float]) -> tuple[float, ...]:
    """Return each block's part of the error, from the values without it and the blocks' shares of the points.

    The squares of the parts add up to the squared standard error. For two scores of the same rows, the differences of
    their parts are the parts of their difference. Empty if there is one block or a score is undefined.
    """
    values = [score.value for score in left_out if score.value is not None]
    if total.value is None or len(values) < max(len(left_out), 2):
        return ()
    pseudovalues = [(total.value - (1 - share) * value) / share for share, value in zip(shares, values, strict=True)]
    center = sum(share * value for share, value in zip(shares, pseudovalues, strict=True))
    weights = [(share / (1 - share) / len(values)) ** 0.5 for share in shares]
    return tuple(weight * (value - center) for weight, value in zip(weights, pseudovalues, strict=True))
