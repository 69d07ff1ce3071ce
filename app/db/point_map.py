"""The map of an embedding's rows: what its files hold, and how they are to be read."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt

from isotropy.catalog import Similarity

MAP = "map"
"""Slug of the map in ``FigureData``, and of its points in ``FigureFile``."""
MAP_NAMES = "map_names"
"""Slug of the names of its rows in ``FigureFile``: UTF-8, a line each, in the order of the points."""
MAP_NEIGHBORS = "map_neighbors"
"""Slug of the nearest neighbors of its rows in ``FigureFile``."""
MAP_COLUMN = "map_column_{}"
"""Slug of the numbers of a kept column in ``FigureFile``, by its place in the header."""

MAP_VECTORS = "map_vectors"
"""Slug of the rows' directions in ``FigureFile``, an .npy of float16: see ``MapHeader.vectors``."""

MAX_MAPPED = 1_000_000
"""Rows of a map; of more rows it shows a sample."""
MAX_COLUMNS = 12
"""Kept columns that a map can be colored by, the first of the file."""
NO_POINT = 2**32 - 1
"""In place of a neighbor that there is not, or that the map does not show."""

SectionType = Literal["float32", "uint32", "uint16"]


class Section(BaseModel):
    """A run of numbers in the file of points, lowest byte first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: SectionType
    offset: NonNegativeInt
    """Bytes before it."""
    count: NonNegativeInt
    """Numbers in it."""


class MapLabels(BaseModel):
    """The labels of the rows of a map, the most frequent first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    names: list[str]
    """The last is empty where rows have none, or one beyond those that keep their name."""
    counts: list[int]


class MapColumn(BaseModel):
    """A column that rows can be colored by, in a file of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    values: Section
    """Numbers of the points, NaN where there is none; of labels a place in ``labels.names``."""
    labels: MapLabels | None
    """None of a column of numbers."""


class MapNeighbors(BaseModel):
    """The nearest neighbors of rows of a map by a similarity, among ``rows`` of them drawn at random."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    k: int
    rows: int
    sections: dict[Literal["point", "neighbor", "distance"], Section]
    """``point``: ascending. ``neighbor``: k points of each, nearest first, ``NO_POINT`` where there is none.
    ``distance``: to these, in the unit of the map. By cosine 1 less the cosine; by dot product minus the product, in
    the unit squared."""
    similarity: Similarity = Similarity.EUCLIDEAN

    def unit_of(self, unit: float) -> float:
        """Return what one unit of distances is in the numbers of the file, for the unit of the map."""
        return {Similarity.EUCLIDEAN: unit, Similarity.COSINE: 1.0, Similarity.DOT: unit * unit}[self.similarity]

    def displayed(self, distance: float) -> float:
        """Return what a list shows of a distance: itself, the cosine or the product."""
        return {Similarity.COSINE: 1 - distance, Similarity.DOT: -distance}.get(self.similarity, distance)


class MapHeader(BaseModel):
    """What is known of a map beside its files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    n: int
    """Rows that were measured."""
    points: int
    """Rows of the map: all that were measured, or a sample in the order of the file."""
    unit: float
    """What one unit of coordinates and norms is in the numbers of the file."""
    shares: list[float]
    """Of the variance, along either axis."""
    sections: dict[Literal["xy", "norm", "row", "label"], Section]
    """``xy``: coordinates, two of each point. ``norm``: of each. ``row``: its place in the file, where that is not its
    number. ``label``: a place in ``labels.names``."""
    labels: MapLabels | None
    named: bool
    """Whether rows have names."""
    columns: list[MapColumn] = []
    """What else rows can be colored by."""
    neighbors: MapNeighbors | None = None
    """None where there are none, and where an earlier version measured."""
    vectors: int = 0
    """Rows of the file of vectors, each at length 1: all points or so many at equal steps; 0 where ``neighbors`` has
    every row, and where an earlier version measured."""


def vector_points(points: int, vectors: int) -> NDArray[np.int64]:
    """Return the points of a map whose vectors are kept, ascending: all, or so many at equal steps."""
    return np.arange(vectors, dtype=np.int64) * points // max(vectors, 1)
