"""Points read chunk by chunk, with labels and groups; sampling of their rows and assignment to jackknife blocks."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.spectrum import CHUNK_ROWS


class Points(Protocol):
    """Rows that can be read repeatedly."""

    @property
    def n(self) -> int: ...

    @property
    def d(self) -> int: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in order, in arrays [any number, d] of ``dtype``."""
        ...

    def labels(self) -> Iterable[str] | None:
        """Return the label of each row, empty where it has none; None if no row has."""
        ...

    def groups(self) -> Iterable[str] | None:
        """Return the group of each row, empty for a row without a group; None if exact duplicates form the groups."""
        ...


@dataclass(frozen=True)
class Rows:
    """Points in memory."""

    x: NDArray[Any]  # [n, d] of real numbers; types other than float32 and float64 are converted by chunks
    row_labels: Sequence[str] | None = None  # [n] labels
    row_groups: Sequence[str] | None = None  # [n] groups

    def __post_init__(self) -> None:
        if not isinstance(self.x, np.ndarray) or self.x.ndim != 2 or self.dtype not in (np.float32, np.float64):
            kind = f"{list(self.x.shape)} of {self.x.dtype}" if hasattr(self.x, "dtype") else type(self.x).__name__
            raise ValueError(
                f"Expected points as a numpy array [n, d] of numbers, got {kind}: use one row per point, and "
                "x.numpy() for a torch tensor."
            )
        for name, values in {"label": self.row_labels, "group": self.row_groups}.items():
            if values is not None and len(values) != self.n:
                raise ValueError(f"Expected a {name} for each of {self.n} rows, got {len(values)}: use '' for none.")

    @property
    def n(self) -> int:
        return len(self.x)

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the chunks: float32 if it holds every number of the array's type, else float64."""
        return np.promote_types(self.x.dtype, np.float32)

    def chunks(self) -> Iterator[NDArray[Any]]:
        return (
            self.x[start : start + CHUNK_ROWS].astype(self.dtype, copy=False) for start in range(0, self.n, CHUNK_ROWS)
        )

    def labels(self) -> Sequence[str] | None:
        return self.row_labels

    def groups(self) -> Sequence[str] | None:
        return self.row_groups


@dataclass(frozen=True)
class DerivedPoints:
    """Points with a transformation applied to each chunk."""

    points: Points

    @property
    def n(self) -> int:
        return self.points.n

    @property
    def d(self) -> int:
        return self.points.d

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.points.dtype

    def labels(self) -> Iterable[str] | None:
        return self.points.labels()

    def groups(self) -> Iterable[str] | None:
        return self.points.groups()


@dataclass(frozen=True)
class SelectedDimensions(DerivedPoints):
    """Points restricted to some dimensions."""

    dimensions: NDArray[np.int64]

    @property
    def d(self) -> int:
        return len(self.dimensions)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the rows in order; one that is not finite in another dimension becomes NaN, so that it is left out."""
        for chunk in self.points.chunks():
            rows = chunk[:, self.dimensions]
            rows[~np.isfinite(chunk).all(1)] = np.nan
            yield rows


class FiniteChunk(NamedTuple):
    """The finite rows of a chunk."""

    points: Tensor  # [m, d]
    positions: NDArray[np.int64]  # [m], among all rows
    n_read: int  # Rows of the chunk, including those left out


def finite_chunks(points: Points) -> Iterator[FiniteChunk]:
    """Yield the finite rows in order by chunks, with their positions."""
    n_read = 0
    for chunk, is_finite in finite_rows(points):
        rows = chunk if is_finite.all() else chunk[is_finite]
        yield FiniteChunk(rows, n_read + is_finite.nonzero().squeeze(1).numpy(), len(chunk))
        n_read += len(chunk)


def finite_rows(points: Points) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield all rows in order, by chunks [m, d], each with a mask [m] of rows without NaN or infinity."""
    for chunk in points.chunks():
        # Copy where torch cannot take a view, such as of reversed or read-only rows.
        rows = torch.from_numpy(np.require(chunk, requirements=["C", "W"]))
        # Maximum and minimum also reveal NaN, in a third of the time of checking each number.
        yield rows, rows.amax(dim=1).isfinite() & rows.amin(dim=1).isfinite()


# Points whose largest coordinate is at most this and at least its inverse are not rescaled: that is all of float32.
SAFE_MAGNITUDE = 2.0**150


def unit_for(x: Tensor, unit: float) -> float:
    """Return the unit, a power of two, of points [n, d] and earlier points with unit ``unit``; 0 while all are zero."""
    largest = max(-float(x.min()), float(x.max())) if x.numel() else 0.0
    if largest <= unit * SAFE_MAGNITUDE:
        return unit
    return 1.0 if 1 / SAFE_MAGNITUDE <= largest <= SAFE_MAGNITUDE else math.ldexp(0.5, math.frexp(largest)[1])


@dataclass(frozen=True)
class ScaledPoints(DerivedPoints):
    """Points divided by a power of two, which is exact and keeps fourth powers within float64."""

    unit: float

    def chunks(self) -> Iterator[NDArray[Any]]:
        return (chunk / self.unit for chunk in self.points.chunks())


def draw_finite_rows(points: Points, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return at most ``size`` random finite rows [m, d] in random order, and their positions in the file, int64 [m]."""
    sample = Sample(min(points.n, size), points.d, points.dtype, seed)
    for chunk, positions, _ in finite_chunks(points):
        sample.update(chunk.numpy(), positions)
    return sample.drawn_rows()


class Sample:
    """A random sample, without replacement and in random order, of at most ``size`` rows of a stream.

    Vitter's (1985) algorithm R, for chunks of any size: row i, from 1, replaces another with chance size / i once the
    sample is full.
    """

    def __init__(self, size: int, d: int, dtype: np.dtype[Any], seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._first_slots = self._generator.permutation(size)
        self._points = np.empty((size, d), dtype)
        self._rows = np.full(size, -1)
        self._rows_offered = 0

    def update(self, points: NDArray[Any], rows: NDArray[np.int64]) -> None:
        """Offer points [n, d] with their row numbers [n]."""
        size = len(self._rows)
        stream_positions = np.arange(self._rows_offered, self._rows_offered + len(points))
        slots = (self._generator.random(len(points)) * (stream_positions + 1)).astype(np.int64)
        is_free = stream_positions < size
        slots[is_free] = self._first_slots[stream_positions[is_free]]
        drawn = (slots < size).nonzero()[0]
        # If several rows fall into one slot, the last one wins.
        _, last_indices = np.unique(slots[drawn][::-1], return_index=True)
        drawn = drawn[::-1][last_indices]
        self._points[slots[drawn]] = points[drawn]
        self._rows[slots[drawn]] = rows[drawn]
        self._rows_offered += len(points)

    def rescale(self, factor: float) -> None:
        self._points[self._rows >= 0] *= factor

    def drawn_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the drawn points [m, d] and their row numbers, int64 [m]."""
        filled = self._rows >= 0
        points, rows = (self._points, self._rows) if filled.all() else (self._points[filled], self._rows[filled])
        return torch.from_numpy(points), torch.from_numpy(rows)


SLICES_PER_BLOCK = 8  # If there are enough rows: several, so that each block of a sorted file gets part of every class
BLOCK_ORDER_SEED = 0  # Fixed, so that the same rows have the same standard errors

Grouping = Literal["rows", "duplicates", "groups"]


def deal_slices(items: NDArray[np.int64], count: int, blocks: int) -> NDArray[np.int64]:
    """Return the block [m] of some ``items`` [m] of ``count``, dealt in rounds by slices of about count / (8 blocks).

    Slices have 1 to 4096 items: longer ones would put one class of a sorted file into one block; shorter ones would
    separate dependent neighbors. The order of blocks is random. Every second round reverses the one before, so that no
    block gets later items.
    """
    slices = items // min(max(count // (SLICES_PER_BLOCK * blocks), 1), CHUNK_ROWS)
    rounds = range(int(slices.max(initial=0)) // blocks + 1)
    orders = [np.random.default_rng((BLOCK_ORDER_SEED, i // 2)).permutation(blocks) for i in rounds]
    return np.concatenate([order[::-1] if i % 2 else order for i, order in enumerate(orders)])[slices]


@dataclass(frozen=True, eq=False)
class Dealing:
    """Groups of rows that are independent of each other, and their assignment to jackknife blocks."""

    grouping: Grouping  # What forms the groups: each row alone, exact duplicates, or the groups of the points
    n_groups: int  # Number of groups dealt to blocks; those of duplicates without rows left out, other groups with them
    # [rows] the index of each row's group by first appearance; -1 for duplicates left out. None: each row is a group.
    group_numbers: NDArray[np.int64] | None = None

    def blocks_of(self, positions: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
        """Return the block [m], below ``blocks``, of the rows at some positions [m] in the file."""
        numbers = positions if self.group_numbers is None else self.group_numbers[positions]
        return deal_slices(numbers, self.n_groups, blocks)

    def count_groups(self, mask: NDArray[np.bool_]) -> int:
        """Return the number of groups that have at least one row in a mask [rows]."""
        if self.group_numbers is None:
            return int(mask.sum())
        return int(np.count_nonzero(np.bincount(self.group_numbers[mask])))

    def key(self) -> str:
        """Return a digest that two dealings share only if they assign rows in the same way."""
        digest = sha256(f"{self.n_groups}".encode())
        if self.group_numbers is not None:
            digest.update(self.group_numbers.tobytes())
        return digest.hexdigest()[:16]


def deal_groups(groups: Iterable[str], n: int) -> Dealing:
    """Assign n rows to groups by name; a row with an empty name is its own group.

    Raises ValueError unless there are n names.
    """
    numbers = group_numbers(groups)
    if len(numbers) != n:
        raise ValueError(
            f'Expected a group for each of {n} rows, got {len(numbers)}: use "" for a row without a group.'
        )
    return Dealing("groups", int(numbers.max(initial=-1)) + 1, numbers)


def group_numbers(groups: Iterable[str]) -> NDArray[np.int64]:
    """Return the group number of each row, [n], in order of appearance; a row with an empty name is its own group."""
    numbers: dict[str | int, int] = {}
    return np.fromiter(
        (numbers.setdefault(name or row, len(numbers)) for row, name in enumerate(groups)), dtype=np.int64
    )


class Duplicates:
    """Finds exact duplicates in a stream of n rows by a 64-bit hash of each.

    The chance that any two different rows among 10 million have the same hash is about 3 in a million.
    """

    def __init__(self, n: int) -> None:
        self._hashes = np.zeros(n, np.uint64)
        self._is_finite = np.zeros(n, bool)

    def update(self, rows: NDArray[Any], positions: NDArray[np.int64]) -> None:
        rows = np.ascontiguousarray(rows + 0.0)  # so that -0 equals 0
        self._hashes[positions] = np.fromiter(
            (int.from_bytes(blake2b(row.data, digest_size=8).digest(), "little") for row in rows), np.uint64, len(rows)
        )
        self._is_finite[positions] = True

    def dealing(self) -> Dealing:
        """Group equal rows; treat rows as independent if no two are equal."""
        _, first_rows, inverse = np.unique(self._hashes[self._is_finite], return_index=True, return_inverse=True)
        if len(first_rows) == len(inverse):
            return Dealing("rows", len(self._is_finite))
        numbers = np.full(len(self._is_finite), -1)
        # Number groups by first appearance, not by hash.
        numbers[self._is_finite] = np.argsort(np.argsort(first_rows))[inverse]
        return Dealing("duplicates", len(first_rows), numbers)
