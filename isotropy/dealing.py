"""Which rows form a group, and to which block of a jackknife each group is dealt."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isotropy.spectrum import CHUNK_ROWS

ROUNDS = 8  # Slices per block, if there are enough rows, so that each block of a sorted file gets part of every class
SEED = 0  # Seed of the order of blocks, so that the same rows have the same standard errors

Grouped = Literal["rows", "duplicates", "groups"]


class Slices:
    """Deals items to blocks in rounds, by slices of about count / (8 blocks) items, from 1 to 4096.

    Longer runs would put one class of a sorted file into one block; single items would separate dependent neighbors.
    The order of blocks is random, and every second round reverses the one before, against drift.
    """

    def __init__(self, count: int, blocks: int) -> None:
        self.blocks = blocks
        self._length = min(max(count // (ROUNDS * blocks), 1), CHUNK_ROWS)
        self._turns = np.empty(0, np.int64)

    def blocks_of(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the block [m] of each item, given by its position."""
        turns = items // self._length
        if len(items) and (last := int(turns.max())) >= len(self._turns):
            rounds = max(last // self.blocks + 1, 2 * len(self._turns) // self.blocks)
            orders = [np.random.default_rng((SEED, number // 2)).permutation(self.blocks) for number in range(rounds)]
            self._turns = np.concatenate([order[::-1] if i % 2 else order for i, order in enumerate(orders)])
        return self._turns[turns]


@dataclass(frozen=True, eq=False)
class Dealing:
    """Groups of rows that are independent of each other, and their assignment to jackknife blocks."""

    by: Grouped  # Every row alone, exact duplicates together, or the groups that were given
    groups: int  # Number of groups among the measured rows
    # [rows] the number of each row's group, in the order in which groups first appear; None where every row is one.
    ranks: NDArray[np.int64] | None = None

    def blocks_of(self, positions: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
        """Return the block [m] of each row, given by its position in the file."""
        return Slices(self.groups, blocks).blocks_of(positions if self.ranks is None else self.ranks[positions])

    def key(self) -> str:
        """Return a digest that is equal exactly if two dealings assign the same rows alike."""
        digest = sha256(f"{self.groups}".encode())
        if self.ranks is not None:
            digest.update(self.ranks.tobytes())
        return digest.hexdigest()[:16]


def by_rows(n: int) -> Dealing:
    return Dealing("rows", n)


def by_groups(groups: Iterable[str], n: int) -> Dealing:
    """Assign n rows to groups by name; a row with an empty name is its own group.

    Raises ValueError unless each row has a name.
    """
    ranks = group_numbers(groups)
    if len(ranks) != n:
        raise ValueError(f"Expected a group for each of {n} rows, got {len(ranks)}: empty where a row stands alone.")
    return Dealing("groups", int(ranks.max(initial=-1)) + 1, ranks)


def group_numbers(groups: Iterable[str]) -> NDArray[np.int64]:
    """Return the group number of each row, [n], in order of appearance; a row with an empty name is its own group."""
    numbers: dict[str | int, int] = {}
    return np.fromiter(
        (numbers.setdefault(name or row, len(numbers)) for row, name in enumerate(groups)), dtype=np.int64
    )


class Duplicates:
    """Finds exact duplicates in a stream of n rows by a 64-bit hash of each.

    Among 10 million rows the chance of a collision is about 3 in a million.
    """

    def __init__(self, n: int) -> None:
        self._hashes = np.zeros(n, np.uint64)
        self._finite = np.zeros(n, bool)

    def update(self, rows: NDArray[Any], positions: NDArray[np.int64]) -> None:
        rows = np.ascontiguousarray(rows + 0.0)  # so that -0 equals 0
        self._hashes[positions] = np.fromiter(
            (int.from_bytes(blake2b(row.data, digest_size=8).digest(), "little") for row in rows), np.uint64, len(rows)
        )
        self._finite[positions] = True

    def dealing(self) -> Dealing:
        """Group equal rows; treat rows as independent if no two are equal."""
        _, first, inverse = np.unique(self._hashes[self._finite], return_index=True, return_inverse=True)
        if len(first) == len(inverse):
            return by_rows(len(self._finite))
        ranks = np.full(len(self._finite), -1)
        # Numbered as they appear, not as their hashes are sorted.
        ranks[self._finite] = np.argsort(np.argsort(first))[inverse]
        return Dealing("duplicates", len(first), ranks)
