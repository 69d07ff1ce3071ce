"""The files of a map: its points, and their names, color columns, nearest neighbors and unit vectors.

Color columns hold the numbers, dates or labels that an upload has next to the vectors.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import compress
from math import isfinite, nan
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from app.db.point_map import (
    EPOCH,
    HUBNESS,
    MAP,
    MAP_COLUMN,
    MAP_NAMES,
    MAP_NEIGHBORS,
    MAP_VECTORS,
    MAX_COLUMNS,
    NO_POINT,
    MapColumn,
    MapHeader,
    MapLabels,
    MapNeighbors,
    MapSection,
    SectionType,
    vector_points,
)
from isoscope.files.contents import MAX_DISTINCT
from isoscope.files.matrix import Matrix
from isoscope.files.selection import excluded_columns
from isoscope.nearest import scale_to_unit_length
from isotropy.catalog import Similarity
from isotropy.cloud import NEIGHBORS, Cloud
from isotropy.pairs import dissimilarities, index_distinct_rows
from isotropy.projection import NAME_CHARACTERS, PointMapCollector, labels_by_frequency
from isotropy.rows import finite_chunks
from workers.files import make_npy

PointSection = Literal["xy", "norm", "row", "label"]
NeighborSection = Literal["point", "neighbor", "distance"]
SectionName = TypeVar("SectionName", bound=str)
MAX_FLOAT32 = float(np.finfo(np.float32).max)
MAX_NUMBERED_LABELS = 12
"""Columns with at most this many different whole numbers hold labels rather than a scale."""
MAX_VECTOR_BYTES = 2**30
VECTOR_DTYPE = np.dtype(np.float16)


def make_map_files(
    cloud: Cloud, matrix: Matrix, point_map: PointMapCollector, projection: Mapping[str, Any]
) -> tuple[MapHeader, dict[str, Callable[[], BinaryIO]]] | None:
    """Return a map's header and, by slug, functions that open its files; None if ``projection`` gives a reason."""
    if projection["reason"] is not None:
        return None
    mapped = point_map.mapped_rows(cloud.unit)
    positions = matrix.file_positions(mapped.rows)
    arrays: dict[PointSection, NDArray[Any]] = {"xy": mapped.xy.ravel(), "norm": mapped.norms}
    if not np.array_equal(positions, np.arange(len(positions))):
        arrays["row"] = positions.astype(np.uint32)
    labels = labels_by_frequency(cloud, torch.from_numpy(mapped.rows))
    if labels is not None:
        arrays["label"] = labels.codes.numpy().astype(np.uint16)
    sections, map_bytes = join_sections(arrays)
    files = {MAP: map_bytes}
    if matrix.selection.names is not None:
        names = compress(matrix.contents.values(matrix.selection.names), _row_mask(matrix, mapped.rows))
        files[MAP_NAMES] = "\n".join(" ".join(name[:NAME_CHARACTERS].split("\n")) for name in names).encode()
    neighbors = _NeighborLists.from_cloud(cloud, mapped.rows, mapped.unit)
    columns = [*([neighbors.hubness(len(mapped.rows))] if neighbors else []), *read_color_columns(matrix, mapped.rows)]
    n_vectors = min(len(mapped.rows), MAX_VECTOR_BYTES // (cloud.d * VECTOR_DTYPE.itemsize))
    if len(cloud.pair_rows) == cloud.n:  # all pairs were measured, so no neighbors need to be searched
        n_vectors = 0
    header = MapHeader(
        n=cloud.n,
        points=len(mapped.rows),
        unit=mapped.unit,
        shares=projection["shares"][:2],
        sections=sections,
        labels=labels
        and MapLabels(names=labels.names, counts=torch.bincount(labels.codes, minlength=len(labels.names)).tolist()),
        named=matrix.selection.names is not None,
        columns=[_add_column_file(number, column, files) for number, column in enumerate(columns)],
        neighbors=neighbors and neighbors.add_file(files),
        vectors=n_vectors,
    )
    openers: dict[str, Callable[[], BinaryIO]] = {slug: partial(io.BytesIO, content) for slug, content in files.items()}
    if n_vectors:
        rows = mapped.rows[vector_points(len(mapped.rows), n_vectors)]
        openers[MAP_VECTORS] = lambda: make_npy(n_vectors, cloud.d, VECTOR_DTYPE, _yield_directions(matrix, rows))
    return header, openers


def _yield_directions(matrix: Matrix, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float16]]:
    """Yield the unit vectors of rows at ascending positions, in blocks; zeros for zero rows."""
    for vectors, positions, _ in finite_chunks(matrix):
        is_selected = torch.from_numpy(np.isin(positions, rows, assume_unique=True))
        yield np.nan_to_num(scale_to_unit_length(vectors[is_selected].numpy())).astype(VECTOR_DTYPE)


@dataclass(frozen=True)
class _NeighborLists:
    """The nearest neighbors of m points of a map, and how often each point is a neighbor of others."""

    points: NDArray[np.int64]  # [m] numbers on the map, ascending
    neighbors: NDArray[np.uint32]  # [m, k] points; ``NO_POINT`` for those not on the map
    distances: NDArray[np.float32]  # [m, k]; NaN for points without neighbors
    occurrences: NDArray[np.int64]  # [m]
    similarity: Similarity

    @classmethod
    def from_cloud(cls, cloud: Cloud, map_rows: NDArray[np.int64], map_unit: float) -> _NeighborLists | None:
        """Return the measured neighbors of the points of a map; None for a cloud without neighbors.

        ``map_rows`` are the points' rows in the matrix, ascending, and ``map_unit`` is the unit of their coordinates.
        Neighbors are distinct rows: the first of equal rows stands for all, and the others share its list.
        """
        nearest = cloud.neighbors
        k = min(NEIGHBORS, nearest.indices.shape[1])
        if k == 0:
            return None
        # A list of neighbors per distinct row, and an empty one at the end for zero rows, which have none by cosine.
        distinct, list_by_row = (numbers.numpy() for numbers in index_distinct_rows(cloud.pair_rows, cloud.similarity))
        positions = cloud.rows[: len(cloud.pair_rows)].numpy()
        points = np.searchsorted(map_rows, positions)
        points = np.where(map_rows[np.minimum(points, len(map_rows) - 1)] == positions, points, NO_POINT)
        indices = nearest.indices[:, :k].numpy()
        occurrences = np.bincount(indices.ravel(), minlength=len(distinct) + 1)
        point_by_list = np.full(len(distinct) + 1, NO_POINT)
        np.minimum.at(point_by_list, list_by_row, points)
        neighbors = np.vstack([point_by_list[indices], np.full(k, NO_POINT)])
        order = points.argsort(kind="stable")
        order = order[points[order] != NO_POINT]
        list_numbers = list_by_row[order]
        map_distances = dissimilarities(
            nearest.take_nearest(k), cloud.similarity, cloud.d, cloud.unit / map_unit
        ).numpy()
        distances = np.vstack([map_distances, np.full(k, np.nan)]).astype(np.float32)
        return cls(
            points[order],
            neighbors[list_numbers].astype(np.uint32),
            distances[list_numbers],
            occurrences[list_numbers],
            cloud.similarity,
        )

    def hubness(self, n: int) -> ColorColumn:
        """Return how often each of the map's n points is a neighbor; NaN for points whose neighbors are unknown."""
        values = np.full(n, np.nan, np.float32)
        values[self.points] = self.occurrences
        return ColorColumn(HUBNESS, values, None)

    def add_file(self, files: dict[str, bytes]) -> MapNeighbors:
        """Add the lists to the map's files by slug, and return their entry for its header."""
        arrays: dict[NeighborSection, NDArray[Any]] = {
            "point": self.points.astype(np.uint32),
            "neighbor": self.neighbors.ravel(),
            "distance": self.distances.ravel(),
        }
        sections, files[MAP_NEIGHBORS] = join_sections(arrays)
        return MapNeighbors(
            k=self.neighbors.shape[1], rows=len(self.points), sections=sections, similarity=self.similarity
        )


def _add_column_file(number: int, column: ColorColumn, files: dict[str, bytes]) -> MapColumn:
    """Add a column to the map's files by slug, and return its entry for the map's header."""
    sections, files[MAP_COLUMN.format(number)] = join_sections({"values": column.values})
    return MapColumn(name=column.name, values=sections["values"], labels=column.labels, dates=column.dates)


def join_sections(arrays: Mapping[SectionName, NDArray[Any]]) -> tuple[dict[SectionName, MapSection], bytes]:
    """Return the sections of a file of arrays by name, and the file's bytes, little-endian."""
    sections: dict[SectionName, MapSection] = {}
    blocks: list[bytes] = []
    offset = 0
    for name, values in arrays.items():
        blocks.append(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
        sections[name] = MapSection(type=cast("SectionType", values.dtype.name), offset=offset, count=len(values))
        offset += len(blocks[-1])
    return sections, b"".join(blocks)


class ColorColumn(NamedTuple):
    """A column by which the points of a map can be colored."""

    name: str
    values: NDArray[Any]
    """By point: a float32 number, NaN if missing, or a uint16 position in ``labels.names``."""
    labels: MapLabels | None  # None for numbers and dates
    dates: bool = False  # Whether the numbers are days since 1970


def _row_mask(matrix: Matrix, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_selected = np.zeros(matrix.n, np.bool_)
    is_selected[rows] = True
    return is_selected


def read_color_columns(matrix: Matrix, rows: NDArray[np.int64]) -> list[ColorColumn]:
    """Return columns that are not names, labels or coordinates, for the rows at these ascending positions.

    Of the first ``MAX_COLUMNS``, those with a single value or with too many different words are left out.
    """
    selection, contents = matrix.selection, matrix.contents
    used_names = {*selection.columns, selection.names, selection.labels}
    names = [annotation.name for annotation in contents.annotations if annotation.n == matrix.n]
    if not selection.transpose:
        names += [*excluded_columns(contents, selection), *contents.real_columns]
    names = [name for name in dict.fromkeys(names) if name not in used_names][:MAX_COLUMNS]
    if not names:
        return []
    collectors = [_ColumnCollector(name) for name in names]
    for values in compress(contents.rows_of(names), _row_mask(matrix, rows)):
        for collector, value in zip(collectors, values, strict=True):
            collector.add(value)
    return [column for collector in collectors if (column := collector.finish()) is not None]


def _days_since_epoch(text: str) -> float:
    """Return the days from 1970-01-01 to an ISO 8601 date, which is in UTC if it has no time zone."""
    moment = datetime.fromisoformat(text.strip())
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) / timedelta(days=1)


@dataclass(eq=False)
class _ColumnCollector:
    """Collects a column as numbers and as dates until a value is not one, and as labels until there are too many."""

    name: str
    _numbers: array[float] | None = field(default_factory=lambda: array("f"))
    _days: array[float] | None = field(default_factory=lambda: array("f"))
    _codes: array[int] | None = field(default_factory=lambda: array("H"))
    _code_by_value: dict[str, int] = field(default_factory=dict)
    _are_integers: bool = True

    def add(self, value: str) -> None:
        """Add the value of the next row; an empty string means no value."""
        if self._codes is not None:
            self._codes.append(self._code_by_value.setdefault(value, len(self._code_by_value)))
            if len(self._code_by_value) > MAX_DISTINCT + 1:
                self._codes = None
        if self._days is not None:
            try:
                self._days.append(_days_since_epoch(value) if value else nan)
            except ValueError:
                self._days = None
        if self._numbers is not None:
            try:
                number = float(value) if value else nan
            except ValueError:
                self._numbers = None
                return
            self._are_integers &= not isfinite(number) or number.is_integer()
            self._numbers.append(number if abs(number) < MAX_FLOAT32 else nan)

    def finish(self) -> ColorColumn | None:
        """Return the column as numbers, dates or labels, whichever fits first; None if it cannot color the map."""
        if len(self._code_by_value) < 2:
            return None
        if self._numbers is not None and not (self._are_integers and len(self._code_by_value) <= MAX_NUMBERED_LABELS):
            return ColorColumn(self.name, np.array(self._numbers, np.float32), None)
        if self._days is not None:
            return ColorColumn(self.name, np.array(self._days, np.float32), None, dates=True)
        if self._codes is None:
            return None
        codes, names = np.array(self._codes, np.uint16), list(self._code_by_value)
        counts = np.bincount(codes, minlength=len(names)).tolist()
        # The most frequent first; the empty name, of rows without a value, goes last.
        order = sorted(range(len(names)), key=lambda code: (not names[code], -counts[code]))
        rank = np.empty(len(names), np.uint16)
        rank[order] = np.arange(len(names))
        labels = MapLabels(names=[names[code] for code in order], counts=[counts[code] for code in order])
        return ColorColumn(self.name, rank[codes], labels)
