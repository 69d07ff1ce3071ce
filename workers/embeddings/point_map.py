"""The files of a map: coordinates, norms, places, labels and kept columns of its rows, their neighbors and names.

Kept columns are those that files have beside the vectors, as numbers or labels by which a map can be colored.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from math import isfinite, nan
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from app.db.point_map import (
    MAP,
    MAP_COLUMN,
    MAP_NAMES,
    MAP_NEIGHBORS,
    MAX_COLUMNS,
    NO_POINT,
    MapColumn,
    MapHeader,
    MapLabels,
    MapNeighbors,
    Section,
    SectionType,
)
from isoscope.files.contents import MAX_DISTINCT
from isoscope.files.matrix import Matrix
from isoscope.files.selection import excluded
from isotropy.catalog import Similarity
from isotropy.cloud import NEIGHBOURS, Cloud
from isotropy.neighbours import equal_rows
from isotropy.pairs import dissimilarities
from isotropy.projection import NAME_CHARACTERS, PointMap, frequent_labels

SectionName = Literal["xy", "norm", "row", "label"]
NeighborSection = Literal["point", "neighbor", "distance"]
Name = TypeVar("Name", bound=str)
HUBNESS = "hubness"
"""Name of the column of how often a row is among the nearest neighbors of others."""


@dataclass(frozen=True)
class MapFiles:
    """What is stored of a map: its header, and its files by slug."""

    header: MapHeader
    stored: dict[str, bytes]


def map_files(cloud: Cloud, matrix: Matrix, mapped: PointMap, projection: Mapping[str, Any]) -> MapFiles | None:
    """Return the files of a map; None where there are no points, for the reason that the projection has."""
    if projection["reason"] is not None:
        return None
    found = mapped.found(cloud.unit)
    places = matrix.in_file(found.rows)
    numbers: dict[SectionName, NDArray[Any]] = {"xy": found.xy.ravel(), "norm": found.norms}
    if not np.array_equal(places, np.arange(len(places))):
        numbers["row"] = places.astype(np.uint32)
    labels = frequent_labels(cloud, torch.from_numpy(found.rows))
    if labels is not None:
        numbers["label"] = labels.codes.numpy().astype(np.uint16)
    sections, points = _joined(numbers)
    named = matrix.selection.names is not None
    files = {MAP: points} | ({MAP_NAMES: _names(matrix, found.rows)} if named else {})
    near = _Near.of(cloud, found.rows, found.unit)
    columns = [*([near.hubness(len(found.rows))] if near else []), *kept_columns(matrix, found.rows)]
    described = [_column(place, one, files) for place, one in enumerate(columns)]
    header = MapHeader(
        n=cloud.n,
        points=len(found.rows),
        unit=found.unit,
        shares=projection["shares"][:2],
        sections=sections,
        labels=labels
        and MapLabels(names=labels.names, counts=torch.bincount(labels.codes, minlength=len(labels.names)).tolist()),
        named=named,
        columns=described,
        neighbors=near and near.described(files),
    )
    return MapFiles(header, files)


@dataclass(frozen=True)
class _Near:
    """The nearest neighbors of points of a map, and how often each of these is one of another."""

    points: NDArray[np.int64]
    """[m], ascending."""
    neighbors: NDArray[np.uint32]
    """[m, k]."""
    distances: NDArray[np.float32]
    """[m, k], as ``MapNeighbors`` has them; NaN of points without neighbors, whose ``neighbors`` are none."""
    occurrences: NDArray[np.int64]
    """[m]."""
    similarity: Similarity

    @classmethod
    def of(cls, cloud: Cloud, rows: NDArray[np.int64], unit: float) -> _Near | None:
        """Those of the rows whose pairs are looked at, as far as they are on a map of these ascending rows.

        Neighbors are distinct rows, of equal ones the first: a copy has those of the row that it equals. None of a
        cloud without any.
        """
        near = cloud.neighbours
        k = min(NEIGHBOURS, near.indices.shape[1])
        if k == 0:
            return None
        distinct, equal = cloud.of_pairs.distinct.numpy(), equal_rows(cloud.pairs).numpy()
        # By cosine rows of zeros are none of the distinct: their place is behind them.
        at = np.searchsorted(distinct, equal)
        own = np.where(distinct[np.minimum(at, len(distinct) - 1)] == equal, at, len(distinct))
        points = _points_of(cloud.rows[: len(cloud.pairs)].numpy(), rows)
        indices = near.indices[:, :k]
        occurrences = np.bincount(indices.numpy().ravel(), minlength=len(distinct) + 1)
        first = np.full(len(distinct) + 1, NO_POINT)
        np.minimum.at(first, own, points)
        neighbors = np.vstack([first[indices.numpy()], np.full(k, NO_POINT)])
        order = points.argsort(kind="stable")
        order = order[points[order] != NO_POINT]
        at = own[order]
        far = dissimilarities(near.first(k), cloud.similarity, cloud.d, cloud.unit / unit).numpy()
        distances = np.vstack([far, np.full(k, np.nan)]).astype(np.float32)
        return cls(points[order], neighbors[at].astype(np.uint32), distances[at], occurrences[at], cloud.similarity)

    def hubness(self, n: int) -> KeptColumn:
        """The occurrences of n points, NaN of those that were not looked at."""
        values = np.full(n, np.nan, np.float32)
        values[self.points] = self.occurrences
        return KeptColumn(HUBNESS, values, None)

    def described(self, files: dict[str, bytes]) -> MapNeighbors:
        """Add the file of neighbors to those of the map, and describe it."""
        numbers: dict[NeighborSection, NDArray[Any]] = {
            "point": self.points.astype(np.uint32),
            "neighbor": self.neighbors.ravel(),
            "distance": self.distances.ravel(),
        }
        sections, files[MAP_NEIGHBORS] = _joined(numbers)
        return MapNeighbors(
            k=self.neighbors.shape[1], rows=len(self.points), sections=sections, similarity=self.similarity
        )


def _points_of(places: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the point of each place on a map of ascending rows, ``NO_POINT`` where it is not there."""
    found = np.searchsorted(rows, places)
    there = rows[np.minimum(found, len(rows) - 1)] == places
    return np.where(there, found, NO_POINT)


def _column(place: int, column: KeptColumn, files: dict[str, bytes]) -> MapColumn:
    """Add the file of a column to those of the map, and describe it."""
    sections, files[MAP_COLUMN.format(place)] = _joined({"values": column.values})
    return MapColumn(name=column.name, values=sections["values"], labels=column.labels)


def _joined(numbers: Mapping[Name, NDArray[Any]]) -> tuple[dict[Name, Section], bytes]:
    """Return the numbers one behind the other, lowest byte first, and where each section lies."""
    sections: dict[Name, Section] = {}
    parts: list[bytes] = []
    offset = 0
    for name, values in numbers.items():
        parts.append(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
        sections[name] = Section(type=cast("SectionType", values.dtype.name), offset=offset, count=len(values))
        offset += len(parts[-1])
    return sections, b"".join(parts)


def _names(matrix: Matrix, rows: NDArray[np.int64]) -> bytes:
    """Return the names of rows, given by their ascending places among all, a line each."""
    wanted = np.zeros(matrix.n, np.bool_)
    wanted[rows] = True
    values = matrix.contents.values(cast("str", matrix.selection.names))
    return "\n".join(_line(value) for value in compress(values, wanted)).encode()


def _line(name: str) -> str:
    return " ".join(name[:NAME_CHARACTERS].split("\n"))


LARGEST = float(np.finfo(np.float32).max)
FEW = 12
"""Different whole numbers up to which they are labels rather than a scale."""


class KeptColumn(NamedTuple):
    """A column of the rows of a map."""

    name: str
    values: NDArray[Any]
    """float32 numbers, NaN where there is none, or uint16 places in ``labels.names``."""
    labels: MapLabels | None


def kept_columns(matrix: Matrix, rows: NDArray[np.int64]) -> list[KeptColumn]:
    """Return the first columns of rows, given by their ascending places, that are no name, label or coordinate.

    Left out are columns of one value alone, and of more words than can be told apart by color.
    """
    names = _kept(matrix)
    if not names:
        return []
    columns = [_Column(name) for name in names]
    wanted = np.zeros(matrix.n, np.bool_)
    wanted[rows] = True
    for values in compress(matrix.contents.rows_of(names), wanted):
        for column, value in zip(columns, values, strict=True):
            column.add(value)
    return [found for column in columns if (found := column.found()) is not None]


def _kept(matrix: Matrix) -> list[str]:
    selection, contents = matrix.selection, matrix.contents
    used = {*selection.columns, selection.names, selection.labels}
    names = [one.name for one in contents.annotations if one.n == matrix.n]
    if not selection.transpose:
        names += [*excluded(contents, selection), *contents.real_columns]
    return [name for name in dict.fromkeys(names) if name not in used][:MAX_COLUMNS]


class _Column:
    """Collects a column as numbers while all values are, and as labels while they are few."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: array[float] | None = array("f")
        self._codes: array[int] | None = array("H")
        self._places: dict[str, int] = {}
        self._are_whole = True

    def add(self, value: str) -> None:
        """Take the value of the next row; empty where there is none."""
        if self._codes is not None:
            self._codes.append(self._places.setdefault(value, len(self._places)))
            if len(self._places) > MAX_DISTINCT + 1:
                self._codes = None
        if self._numbers is not None:
            try:
                number = float(value) if value else nan
            except ValueError:
                self._numbers = None
                return
            self._are_whole &= not isfinite(number) or number.is_integer()
            self._numbers.append(number if abs(number) < LARGEST else nan)

    def found(self) -> KeptColumn | None:
        """Return the column; None where it would color nothing."""
        distinct = len(self._places)
        if distinct < 2:
            return None
        if self._numbers is not None and not (self._are_whole and distinct <= FEW):
            return KeptColumn(self._name, np.array(self._numbers, np.float32), None)
        return None if self._codes is None else self._labeled(np.array(self._codes, np.uint16))

    def _labeled(self, codes: NDArray[np.uint16]) -> KeptColumn:
        """The most frequent labels first, the empty one of rows without last."""
        names = list(self._places)
        counts = Counter(dict(enumerate(np.bincount(codes, minlength=len(names)).tolist())))
        order = sorted(counts, key=lambda code: (not names[code], -counts[code]))
        places = np.empty(len(names), np.uint16)
        places[order] = np.arange(len(names))
        labels = MapLabels(names=[names[code] for code in order], counts=[counts[code] for code in order])
        return KeptColumn(self._name, places[codes], labels)
