"""Contents and file format of the map of an embedding's rows."""

from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt

from isoscope.core.formatting import number
from isoscope.files.strict import Frozen
from isotropy.catalog import Similarity

# Slug of the map in FigureData, and of the file of its points in FigureFile. Next come slugs of further files.
MAP = "map"
# Names of the map's rows: UTF-8, one line per point.
MAP_NAMES = "map_names"
# Nearest neighbors of the map's rows.
MAP_NEIGHBORS = "map_neighbors"
# One column, with its index in ``MapHeader.columns``.
MAP_COLUMN = "map_column_{}"
# Name of the column that counts how often a row is a nearest neighbor of others.
HUBNESS = "hubness"
# Unit vectors of the map's rows, an .npy of float16: see MapHeader.vectors.
MAP_VECTORS = "map_vectors"
# The neighbor layout: see LayoutHeader.
MAP_LAYOUT = "map_layout"

# Maps of larger embeddings show a sample.
MAX_MAPPED = 1_000_000
# Maps of fewer rows have no neighbor layout.
MIN_LAID_OUT = 12
# Columns that a map can be colored by: the first ones of the file.
MAX_COLUMNS = 12
# Stands for a missing neighbor, or one that the map does not show.
NO_POINT = 2**32 - 1
# Day 0 of a column of dates.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SectionType = Literal["float32", "uint32", "uint16"]


class MapSection(Frozen):
    """A sequence of little-endian numbers in the file of points."""

    type: SectionType
    # In bytes from the start of the file.
    offset: NonNegativeInt
    count: NonNegativeInt


class MapLabels(Frozen):
    """The labels of the rows of a map, the most frequent first."""

    # The last name is empty. It stands for rows without a label, and for the rarest labels.
    names: list[str]
    counts: list[int]


class MapColumn(Frozen):
    """A column that rows can be colored by, in its own file."""

    name: str
    # By point: a number, NaN if missing; for labels an index in labels.names; for dates days since 1970.
    values: MapSection
    labels: MapLabels | None
    dates: bool = False

    def format_value(self, value: float) -> str:
        """Return the value of a point as text, empty if missing."""
        if self.labels is not None:
            return self.labels.names[int(value)]
        if isnan(value):
            return ""
        return (EPOCH + timedelta(days=value)).date().isoformat() if self.dates else number(value)


class MapNeighbors(Frozen):
    """The nearest neighbors of a map's rows by a similarity, among ``rows`` of them sampled at random."""

    k: int
    rows: int
    # point: their numbers, ascending. neighbor: the k neighbors of each, nearest first, NO_POINT if missing. distance:
    # to each neighbor; Euclidean in the unit of the map, 1 - cosine, or minus the dot product in its square.
    sections: dict[Literal["point", "neighbor", "distance"], MapSection]
    similarity: Similarity = Similarity.EUCLIDEAN

    def distance_unit(self, map_unit: float) -> float:
        """Return the unit of the stored distances, given the unit of the map."""
        units = {Similarity.EUCLIDEAN: map_unit, Similarity.COSINE: 1.0, Similarity.DOT: map_unit * map_unit}
        return units[self.similarity]

    def displayed_value(self, distance: float) -> float:
        """Return a stored distance as pages show it: the distance, cosine or dot product."""
        return {Similarity.COSINE: 1 - distance, Similarity.DOT: -distance}.get(self.similarity, distance)


class LayoutHeader(Frozen):
    """A neighbor layout: a second picture of some points of a map, which a job computes after the measures."""

    rows: int
    k: int
    # Mean number of a row's k nearest neighbors, copies aside, that are among its k nearest in this layout.
    neighbors_kept: float
    # The same number for the first two principal components of these rows.
    kept_by_components: float
    # point: numbers of the points, ascending. xy: two coordinates of each.
    sections: dict[Literal["point", "xy"], MapSection]


class MapHeader(Frozen):
    """Sizes and file sections of a map."""

    # Measured rows.
    n: int
    # Rows of the map: all measured rows, or a sample in file order.
    points: int
    # Coordinates and norms in the file, times this, are those of the embedding.
    unit: float
    # Share of the variance along each axis.
    shares: list[float]
    # By point. xy: two coordinates. norm: of its vector. row: position in the file, if that differs from the point's
    # number. label: index in labels.names.
    sections: dict[Literal["xy", "norm", "row", "label"], MapSection]
    labels: MapLabels | None
    named: bool
    columns: list[MapColumn] = Field([])
    # None if not computed, as by earlier versions.
    neighbors: MapNeighbors | None = None
    # Rows of the file of unit vectors: all points or an even sample; 0 if neighbors has every row, or not computed.
    vectors: int = 0
    # None until it is computed, and in maps of earlier versions.
    layout: LayoutHeader | None = None


def vector_points(n_points: int, n_vectors: int) -> NDArray[np.int64]:
    """Return the numbers of the points of a map whose vectors are stored, ascending: all, or an even sample."""
    return np.arange(n_vectors, dtype=np.int64) * n_points // max(n_vectors, 1)
