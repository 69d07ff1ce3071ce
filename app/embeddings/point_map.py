"""The map of an embedding's rows: search for a row by number or name, and the rows nearest to it."""

import mmap
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from app.context import Context
from app.db import point_map
from app.db.models import Embedding, FigureFile, MapLayout
from app.embeddings.service import get_stored_figure
from app.storage import Storage
from isoscope.core.errors import NotFoundError
from isoscope.core.formatting import count
from isoscope.nearest import NearestRow, nearest_rows
from isotropy.catalog import SIMILARITIES, Similarity

MAX_QUERY_CHARACTERS = 60  # Names on a map are cut to this length
MAX_ALTERNATIVES = 8
MAX_DRAWN = 200_000  # Points that a browser draws, pans and selects without a pause
MAX_DETAILS = 3  # Columns that are shown beside a row
BLOCK_ROWS = 8192
N_NEIGHBORS = 10
PCA, TSNE = "pca", "neighbors"
"""The two layouts of a map, by their names in URLs. Pages call the layout by t-SNE "Neighbors"."""


class NamedRow(NamedTuple):
    """A row: its position in the file, from 0, and its name, empty if it has none."""

    position: int
    name: str
    details: Mapping[str, str] = MappingProxyType({})
    """Its label, under "label", and its values in further columns, by column name."""

    @property
    def title(self) -> str:
        return self.name or f"row {count(self.position)}"


class NearRow(NamedTuple):
    """A neighbor of a row."""

    row: NamedRow
    nearness: float  # Its distance, cosine or dot product with the row, as the similarity says


class RowSearch(NamedTuple):
    """The result of a search on a map: the row, if any, and its neighbors."""

    query: str
    row: NamedRow | None
    near: list[NearRow]
    alternatives: list[NamedRow]  # Other rows that the query may mean
    reason: str = ""  # Why there are no neighbors; else empty
    n_searched: int = 0
    similarity: Similarity = Similarity.EUCLIDEAN


class StoredMap:
    """A map whose numbers and names are read from its files as they are needed. A point is the index of a row in it."""

    def __init__(self, storage: Storage, header: point_map.MapHeader, files: dict[str, str], layout: str = PCA) -> None:
        self.header = header
        self.layout = layout if layout in self.layouts else PCA
        self._storage = storage
        self._files = files

    @property
    def caption(self) -> str:
        header, layout = self.header, self.header.layout
        kept_sentence = ""
        if layout is not None:
            by_similarity = f" by {SIMILARITIES[header.neighbors.similarity]}" if header.neighbors else ""
            n_kept, other_name, n_other = layout.kept_by_components, "Neighbors", layout.neighbors_kept
            if self.layout == TSNE:
                n_kept, other_name, n_other = layout.neighbors_kept, "PCA", layout.kept_by_components
            kept_sentence = (
                f" Keeps {n_kept:.1f} of {layout.k} nearest neighbors{by_similarity}; {other_name} keeps {n_other:.1f}."
            )
        if self._n_laid_out == header.n:
            extent = f"All {count(header.n)} rows"
        else:
            extent = f"{count(self._n_laid_out)} of {count(header.n)} rows"
        if self.layout == TSNE:
            return f"{extent} laid out by t-SNE.{kept_sentence} Distances between clusters mean nothing."
        drawn_note = f" {count(MAX_DRAWN)} of them, chosen at random, are drawn." if header.points > MAX_DRAWN else ""
        first, second = (f"{share:.1%}" for share in header.shares)
        axes = f"along the first two principal components ({first} and {second} of the variance)"
        extent += ", drawn at random," if header.points < header.n else ""
        return f"{extent} {axes}.{drawn_note}{kept_sentence}"

    @property
    def _n_laid_out(self) -> int:
        return self.header.points if self.layout == PCA or self.header.layout is None else self.header.layout.rows

    @property
    def layouts(self) -> dict[str, str]:
        """Return the titles of the available layouts, by their names in URLs."""
        return {PCA: "PCA"} | ({} if self.header.layout is None else {TSNE: "Neighbors"})

    @property
    def version(self) -> str:
        """Return the hash of the file that holds the drawn coordinates."""
        return self._files[point_map.MAP if self.layout == PCA else point_map.MAP_LAYOUT]

    @property
    def draws_all(self) -> bool:
        return self.header.n <= min(MAX_DRAWN, self._n_laid_out)

    @property
    def colors(self) -> dict[str, str]:
        """Return the titles of what can color the points, by form value. The first is the default."""
        default = {"label": "label"} if self.header.labels else {"none": "one color"}
        columns = {f"column-{i}": column.name for i, column in enumerate(self.header.columns)}
        return default | {"norm": "norm"} | columns

    @cached_property
    def positions(self) -> NDArray[np.uint32]:
        """Return the positions of all points in the file, ascending."""
        if "row" in self.header.sections:
            return self.read(point_map.MAP, self.header.sections["row"])
        return np.arange(self.header.points, dtype=np.uint32)

    @cached_property
    def xy(self) -> NDArray[np.float64]:
        """Return the coordinates of all points, [points, 2]."""
        return self.read(point_map.MAP, self.header.sections["xy"]).astype(np.float64).reshape(-1, 2) * self.header.unit

    @cached_property
    def layout_xy(self) -> NDArray[np.float64]:
        """Return the coordinates of all points in the neighbor layout, [points, 2]; NaN for those left out."""
        xy = np.full((self.header.points, 2), np.nan)
        if (layout := self.header.layout) is not None:
            points, values = (self.read(point_map.MAP_LAYOUT, layout.sections[name]) for name in ("point", "xy"))
            xy[points] = values.reshape(-1, 2)
        return xy

    @property
    def drawn_xy(self) -> NDArray[np.float64]:
        return self.layout_xy if self.layout == TSNE else self.xy

    @cached_property
    def norms(self) -> NDArray[np.float64]:
        return self.read(point_map.MAP, self.header.sections["norm"]).astype(np.float64) * self.header.unit

    @cached_property
    def names(self) -> list[str]:
        return self._names.read_lines() if self._names is not None else []

    def read_column(self, index: int) -> NDArray[Any]:
        return self.read(point_map.MAP_COLUMN.format(index), self.header.columns[index].values)

    def read_neighbors(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64]]:
        """Return the points with stored neighbors [m], these neighbors [m, k] and their distances [m, k]."""
        stored = self.header.neighbors
        if stored is None:
            return np.empty(0, np.uint32), np.empty((0, 0), np.uint32), np.empty((0, 0))
        points, neighbors, distances = (
            self.read(point_map.MAP_NEIGHBORS, stored.sections[name]) for name in ("point", "neighbor", "distance")
        )
        scaled_distances = distances.reshape(-1, stored.k).astype(np.float64) * stored.distance_unit(self.header.unit)
        return points, neighbors.reshape(-1, stored.k), scaled_distances

    def get_row(self, point: int, color: str = "") -> NamedRow:
        """Return the row of a point. Its details: its label, the column of ``color``, other columns."""
        details = {}
        if self.header.labels is not None:
            details["label"] = self.header.labels.names[self.read(point_map.MAP, self.header.sections["label"])[point]]
        names = [column.name for column in self.header.columns]
        colored = [index for index in range(len(names)) if f"column-{index}" == color]
        columns = [index for index, name in enumerate(names) if index not in colored and name != point_map.HUBNESS]
        for index in [*colored, *columns][:MAX_DETAILS]:
            column, value = self.header.columns[index], self.read_column(index)[point]
            details[column.name] = column.format_value(float(value))
        name = "" if self._names is None else self._names.read_line(point)
        return NamedRow(int(self.positions[point]), name, details)

    def find_details(self, position: int) -> Mapping[str, str]:
        """Return the details of the row at a position in the file; empty if the map does not have it."""
        point = self._find_point(position)
        return {} if point is None else self.get_row(point).details

    def search(self, text: str, color: str = "") -> RowSearch:
        """Find a row by its number, else by its name, and the rows nearest to it.

        If the number is the name of another row, that row is an alternative. ``color`` is a key of ``colors``.
        """
        query = text.strip().replace("\n", " ")[:MAX_QUERY_CHARACTERS]
        named_point = self.find_named_point(query)
        numbered_point = self._find_point(int(query)) if query.isdecimal() else None
        point = named_point if numbered_point is None else numbered_point
        if point is not None:
            alternatives = [self.get_row(named_point)] if named_point is not None and named_point != point else []
            return self.find_neighbors(point, query, alternatives, color)
        similar = self._names.find_containing(query) if self._names is not None and query else []
        if query.isdecimal():
            extent = f"{count(int(self.positions[0]))} to {count(int(self.positions[-1]))}"
            rows = f"{count(self.header.points)} rows, numbered from {extent}"
            reason = f"No row {count(int(query))} here. The map shows {rows}."
        elif self.header.named:
            reason = f"No row is named {query}."
        else:
            reason = "These rows have no names. Enter a row number."
        return RowSearch(query, None, [], [self.get_row(candidate) for candidate in similar], reason)

    def find_named_point(self, name: str) -> int | None:
        """Return the first point with this name, else the first whose name differs only in ASCII case, else None."""
        return self._names.find_line(name) if self._names is not None and name else None

    def find_neighbors(self, point: int, query: str, alternatives: list[NamedRow], color: str = "") -> RowSearch:
        """Return the result of a search that found a point: its stored neighbors, else those among stored vectors."""
        row, stored = self.get_row(point, color), self.header.neighbors
        if stored is None:
            reason = "An earlier version measured these rows. Choose again on the Details tab to get neighbors."
            return RowSearch(query, row, [], alternatives, reason)
        points, neighbors, distances = self.read_neighbors()
        index = int(np.searchsorted(points, point))
        near, n_searched, reason = [], stored.rows, ""
        if index < len(points) and points[index] == point:
            pairs = zip(neighbors[index].tolist(), distances[index].tolist(), strict=True)
            near = [
                NearRow(self.get_row(neighbor, color), stored.displayed_value(distance))
                for neighbor, distance in pairs
                if neighbor != point_map.NO_POINT
            ]
        elif point_map.MAP_VECTORS in self._files:
            n_searched = self.header.vectors
            nearest = self._search_vectors(point, stored.similarity)
            near = [NearRow(self.get_row(neighbor.position, color), neighbor.nearness) for neighbor in nearest]
            if not near and n_searched < self.header.points:
                reason = f"Neighbors are known for a sample of {count(n_searched)} rows. This row is not one of them."
        else:
            reason = (
                f"Neighbors are known for {count(stored.rows)} rows drawn at random. This row is not one of them. "
                "Choose again on the Details tab to measure these vectors again: then every row has neighbors."
            )
        if not near and not reason and stored.similarity is Similarity.COSINE:
            reason = "This row is all zeros. It has no direction, so no row is near to it by cosine."
        return RowSearch(query, row, near, alternatives, reason or ("" if near else "This row has no neighbors."),
                         n_searched, stored.similarity)  # fmt: skip

    def _find_point(self, position: int) -> int | None:
        """Return the point of the row at a position in the file; None if the map does not have it."""
        # A larger position does not fit the 32-bit integers of the map.
        index = int(np.searchsorted(self.positions, min(position, point_map.NO_POINT)))
        return index if index < self.header.points and self.positions[index] == position else None

    def _search_vectors(self, point: int, similarity: Similarity) -> list[NearestRow]:
        """Return the points nearest to a point among the stored vectors; empty if its own vector is not stored."""
        vectors = np.load(self._storage.local_path(self._files[point_map.MAP_VECTORS]), mmap_mode="r")
        points = point_map.vector_points(self.header.points, len(vectors))
        index = int(np.searchsorted(points, point))
        if index == len(points) or points[index] != point:
            return []

        def read_block(rows: slice) -> NDArray[np.floating[Any]]:
            block: NDArray[np.float32] = vectors[rows].astype(np.float32)  # stored as unit vectors
            return block if similarity is Similarity.COSINE else block * self.norms[points[rows], None]

        def read_blocks() -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
            for start in range(0, len(vectors), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                yield read_block(rows), points[rows]

        (query,) = read_block(slice(index, index + 1))
        return nearest_rows(read_blocks(), query, N_NEIGHBORS, similarity, point)

    def read(self, slug: str, section: point_map.MapSection) -> NDArray[Any]:
        """Return the numbers in a section of a map file, as stored on disk."""
        dtype = np.dtype(section.type).newbyteorder("<")
        if not section.count:
            return np.empty(0, dtype)
        return np.memmap(self._storage.local_path(self._files[slug]), dtype, "r", section.offset, (section.count,))

    @cached_property
    def _names(self) -> "_MappedLines | None":
        if point_map.MAP_NAMES not in self._files:
            return None
        with self._storage.local_path(self._files[point_map.MAP_NAMES]).open("rb") as file:
            # An empty file, of one row without a name, cannot be mapped.
            size = file.seek(0, 2)
            return _MappedLines(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")


def find_map(context: Context, embedding: Embedding, header: dict[str, Any] | None, layout: str) -> StoredMap | None:
    """Return the map of an embedding from its stored header; None if there is nothing to draw."""
    try:
        return _open_map(context, embedding.id, header, layout) if header is not None else None
    except NotFoundError:
        return None


def get_map(context: Context, embedding_id: str, layout: str = PCA) -> StoredMap:
    return _open_map(context, embedding_id, get_stored_figure(context, embedding_id, point_map.MAP), layout)


def explain_no_layout(context: Context, embedding_id: str, stored_map: StoredMap) -> tuple[str, bool]:
    """Return why a map has no neighbor layout (empty if it has one or too few rows), and whether one is being made."""
    header = stored_map.header
    if header.layout is not None or header.points < point_map.MIN_LAID_OUT:
        return "", False
    with context.sessions() as session:
        layout = session.scalar(select(MapLayout).where(MapLayout.embedding_id == embedding_id))
    if layout is None:
        return "An earlier version measured these rows. Choose again on the Details tab to add Neighbors.", False
    return layout.error or "Neighbors, a second layout, appears once a worker has computed it.", layout.error is None


def _open_map(context: Context, embedding_id: str, header: dict[str, Any], layout: str) -> StoredMap:
    if header.get("reason"):
        raise NotFoundError(f"There is no map: {header['reason']}")
    statement = select(FigureFile.slug, FigureFile.file_sha256).where(FigureFile.embedding_id == embedding_id)
    with context.sessions() as session:
        files = {row.slug: row.file_sha256 for row in session.execute(statement)}
    if point_map.MAP not in files:
        raise NotFoundError("The points of this map are gone. Choose again to measure the embedding again.")
    return StoredMap(context.storage, point_map.MapHeader.model_validate(header), files, layout)


class _MappedLines:
    """Lines of a memory-mapped file, numbered from 0."""

    def __init__(self, content: mmap.mmap | bytes) -> None:
        self._content = content

    def read_line(self, number: int) -> str:
        start = int(self._line_ends[number - 1]) + 1 if number else 0
        end = int(self._line_ends[number]) if number < len(self._line_ends) else len(self._content)
        return self._content[start:end].decode()

    def read_lines(self) -> list[str]:
        return self._content[:].decode().split("\n")

    def find_line(self, line: str) -> int | None:
        """Return the number of the first line equal to ``line``, else of the first that differs only in ASCII case."""
        pattern = rb"(?m)^" + re.escape(line.encode()) + rb"$"
        matches = (re.search(pattern, self._content, flags) for flags in (re.NOFLAG, re.IGNORECASE))
        return next((self._find_line_number(match.start()) for match in matches if match), None)

    def find_containing(self, text: str) -> list[int]:
        """Return the first MAX_ALTERNATIVES line numbers whose line contains a text, ignoring ASCII case."""
        numbers: dict[int, None] = {}
        for match in re.finditer(re.escape(text.encode()), self._content, re.IGNORECASE):
            numbers[self._find_line_number(match.start())] = None
            if len(numbers) == MAX_ALTERNATIVES:
                break
        return list(numbers)

    def _find_line_number(self, offset: int) -> int:
        return int(np.searchsorted(self._line_ends, offset))

    @cached_property
    def _line_ends(self) -> NDArray[np.int64]:
        return np.flatnonzero(np.frombuffer(self._content, np.uint8) == ord("\n"))
