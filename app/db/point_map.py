"""The map of an embedding's rows: contents and format of its files."""

from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt

from isoscope.core.formatting import number
from isotropy.catalog import Similarity

# Slug of the map in FigureData, and of its points in FigureFile.
MAP = "map"
# Names of its rows in FigureFile: UTF-8, a line each, in the order of the points.
MAP_NAMES = "map_names"
# Nearest neighbors of its rows in FigureFile.
MAP_NEIGHBORS = "map_neighbors"
# A kept column in FigureFile, by its place in the header.
MAP_COLUMN = "map_column_{}"
# Name of the column that counts how often a row is a nearest neighbor of others.
HUBNESS = "hubness"

# Directions of the rows in FigureFile, an .npy of float16: see MapHeader.vectors.
MAP_VECTORS = "map_vectors"

# Maps of more rows show a sample.
MAX_MAPPED = 1_000_000
# Kept columns that a map can be colored by, the first of the file.
MAX_COLUMNS = 12
# A missing neighbor, or one that the map does not show.
NO_POINT = 2**32 - 1

# Day 0 of a column of dates.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SectionType = Literal["float32", "uint32", "uint16"]


class MapSection(BaseModel):
    """A run of numbers in the file of points, little-endian."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: SectionType
    # Bytes before it.
    offset: NonNegativeInt
    count: NonNegativeInt


class MapLabels(BaseModel):
    """The labels of the rows of a map, the most frequent first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # The last is empty for rows without label, or beyond the labels that keep their name.
    names: list[str]
    counts: list[int]


class MapColumn(BaseModel):
    """A column that rows can be colored by, in a file of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    # Numbers of the points, NaN for missing; of labels an index of labels.names; of dates days since 1970.
    values: MapSection
    labels: MapLabels | None
    dates: bool = False

    def format_value(self, value: float) -> str:
        """Return a value of a point as text; empty for none."""
        if self.labels is not None:
            return self.labels.names[int(value)]
        if isnan(value):
            return ""
        return (EPOCH + timedelta(days=value)).date().isoformat() if self.dates else number(value)


class MapNeighbors(BaseModel):
    """The nearest neighbors of rows of a map by a similarity, among ``rows`` of them drawn at random."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    k: int
    rows: int
    # point: ascending. neighbor: k points of each, nearest first, NO_POINT for none. distance: to these, in the unit
    # of the map. By cosine 1 less the cosine; by dot product minus the product, in the unit squared.
    sections: dict[Literal["point", "neighbor", "distance"], MapSection]
    similarity: Similarity = Similarity.EUCLIDEAN

    def distance_unit(self, map_unit: float) -> float:
        """Return the unit of the stored distances, given the unit of the map."""
        units = {Similarity.EUCLIDEAN: map_unit, Similarity.COSINE: 1.0, Similarity.DOT: map_unit * map_unit}
        return units[self.similarity]

    def displayed_value(self, distance: float) -> float:
        """Return the displayed value of a distance: itself, the cosine or the product."""
        return {Similarity.COSINE: 1 - distance, Similarity.DOT: -distance}.get(self.similarity, distance)


class MapHeader(BaseModel):
    """Facts about a map that are not in its files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Rows that were measured.
    n: int
    # Rows of the map: all that were measured, or a sample in file order.
    points: int
    # Unit of coordinates and norms in the numbers of the file.
    unit: float
    # Share of the variance along each axis.
    shares: list[float]
    # xy: two coordinates of each point. norm: of each. row: its position in the file, where that is not its number.
    # label: an index of labels.names.
    sections: dict[Literal["xy", "norm", "row", "label"], MapSection]
    labels: MapLabels | None
    named: bool
    columns: list[MapColumn] = []
    # None for none, or measured by an earlier version.
    neighbors: MapNeighbors | None = None
    # Rows of the file of unit vectors: all points, or an even sample; 0 where neighbors has every row, or measured
    # by an earlier version.
    vectors: int = 0


def vector_points(points: int, vectors: int) -> NDArray[np.int64]:
    """Return the points of a map whose vectors are kept, ascending: all, or an even sample."""
    return np.arange(vectors, dtype=np.int64) * points // max(vectors, 1)
