"""Rows of a map by number or name: where one lies, and what lies nearest to it."""

import mmap
import re
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.context import Context
from app.db.point_map import MAP, MAP_NAMES, MAP_NEIGHBORS, NO_POINT, Section
from app.embeddings.point_map import PointMap
from isoscope.core.formatting import count
from isotropy.catalog import Similarity

MAX_ASKED_CHARACTERS = 60
"""As many as names on a map are cut to."""
MAX_OTHERS = 8
"""Rows that are offered beside the one that was found, or in place of one."""


class NamedRow(NamedTuple):
    """A row by its place in the file and its name, empty where it has none."""

    place: int
    name: str

    @property
    def words(self) -> str:
        """The name, or the number of a row without one."""
        return self.name or f"row {count(self.place)}"


class NearRow(NamedTuple):
    """A neighbor of a row."""

    row: NamedRow
    near: float
    """The distance, the cosine or the dot product."""


class RowSearch(NamedTuple):
    """What was asked for on a map, and what was found."""

    asked: str
    row: NamedRow | None
    near: list[NearRow]
    others: list[NamedRow]
    """Rows that the same words may mean."""
    reason: str
    """Why there is no row, or the row has no neighbors."""


def search_rows(context: Context, found: PointMap, asked: str) -> RowSearch:
    """Find a row of a map by its number or its name; a number that is also the name of a row offers that one beside."""
    asked = asked.strip().replace("\n", " ")[:MAX_ASKED_CHARACTERS]
    rows = MapRows(context, found)
    named = rows.named(asked)
    point = rows.point_of(int(asked)) if asked.isdecimal() else None
    if point is None and named is not None:
        point = named
    if point is None:
        return RowSearch(asked, None, [], rows.containing(asked), _why_none(found, rows, asked))
    others = [rows.row(named)] if named is not None and named != point else []
    near = rows.near(point)
    return RowSearch(asked, rows.row(point), near or [], others, "" if near else _why_not_near(found, near is None))


def _why_none(found: PointMap, rows: "MapRows", asked: str) -> str:
    header = found.header
    if asked.isdecimal():
        shown = f"The map shows {count(header.points)} rows, numbered from {count(rows.place(0))} to "
        return f"No row {count(int(asked))} here. {shown}{count(rows.place(header.points - 1))}."
    return f"No row is named {asked}." if header.named else "These rows have no names. Give the number of one."


def _why_not_near(found: PointMap, not_looked: bool) -> str:
    neighbors = found.header.neighbors
    if neighbors is None:
        return "An earlier version measured these rows. Choose again on the Source tab to get neighbors."
    if not_looked:
        return f"Neighbors are known for {count(neighbors.rows)} rows drawn at random. This row is not one of them."
    if neighbors.similarity is Similarity.COSINE:
        return "This row is all zeros. It has no direction, so no row is near to it by cosine."
    return "This row has no neighbors."


class MapRows:
    """The rows of a map, read from its files."""

    def __init__(self, context: Context, found: PointMap) -> None:
        self._context = context
        self._found = found

    def place(self, point: int) -> int:
        """The place of a point's row in the file."""
        return point if self.places is None else int(self.places[point])

    def point_of(self, place: int) -> int | None:
        """The point of a row by its place in the file; None where the map does not show it."""
        if place >= NO_POINT:
            return None
        if self.places is None:
            return place if place < self._found.header.points else None
        at = int(np.searchsorted(self.places, place))
        return at if at < len(self.places) and self.places[at] == place else None

    def row(self, point: int) -> NamedRow:
        """The row of a point."""
        names = self._names
        return NamedRow(self.place(point), "" if names is None else names.line(point))

    def names(self) -> list[str]:
        """The names of all rows, none where rows have no names."""
        return [] if self._names is None else self._names.all()

    def named(self, name: str) -> int | None:
        """The first point whose row has exactly this name."""
        return None if self._names is None or not name else self._names.first(name)

    def containing(self, text: str) -> list[NamedRow]:
        """The first rows whose names contain a text; ASCII letters match whatever their case."""
        if self._names is None or not text:
            return []
        return [self.row(point) for point in self._names.containing(text)]

    def near(self, point: int) -> list[NearRow] | None:
        """The nearest neighbors of a point; None where they were not looked at."""
        neighbors = self._found.header.neighbors
        if neighbors is None:
            return None
        points, neighbor, distance = (
            self.read(MAP_NEIGHBORS, neighbors.sections[name]) for name in ("point", "neighbor", "distance")
        )
        at = int(np.searchsorted(points, point))
        if at == len(points) or points[at] != point:
            return None
        own = slice(at * neighbors.k, (at + 1) * neighbors.k)
        pairs = zip(neighbor[own].tolist(), distance[own].tolist(), strict=True)
        unit = neighbors.unit_of(self._found.header.unit)
        return [NearRow(self.row(one), neighbors.shown(far * unit)) for one, far in pairs if one != NO_POINT]

    @cached_property
    def places(self) -> NDArray[np.uint32] | None:
        """Places in the file; None where each is the number of its point."""
        section = self._found.header.sections.get("row")
        return None if section is None else self.read(MAP, section)

    def read(self, slug: str, section: Section) -> NDArray[Any]:
        """The numbers of a section of a file of the map, as they lie on the disk."""
        path = self._context.storage.local(self._found.files[slug])
        kind = np.dtype(section.type).newbyteorder("<")
        return np.memmap(path, kind, "r", section.offset, (section.count,)) if section.count else np.empty(0, kind)

    @cached_property
    def _names(self) -> "_Lines | None":
        sha256 = self._found.files.get(MAP_NAMES)
        if sha256 is None:
            return None
        with self._context.storage.local(sha256).open("rb") as file:
            # An empty file cannot be mapped: it is the name of one nameless row.
            size = file.seek(0, 2)
            return _Lines(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")


class _Lines:
    """Lines of a file in memory that is not read before it is needed."""

    def __init__(self, text: mmap.mmap | bytes) -> None:
        self._text = text

    def line(self, number: int) -> str:
        start = int(self._ends[number - 1]) + 1 if number else 0
        end = int(self._ends[number]) if number < len(self._ends) else len(self._text)
        return self._text[start:end].decode()

    def all(self) -> list[str]:
        return self._text[:].decode().split("\n")

    def first(self, line: str) -> int | None:
        wanted = line.encode()
        at = self._text.find(b"\n" + wanted + b"\n")
        before = self._number(at) + 1 if at >= 0 else None
        likely = (0, before, len(self._ends))
        return next((one for one in likely if one is not None and self.line(one) == line), None)

    def containing(self, text: str) -> list[int]:
        found: dict[int, None] = {}
        for match in re.finditer(re.escape(text.encode()), self._text, re.IGNORECASE):
            found[self._number(match.start())] = None
            if len(found) == MAX_OTHERS:
                break
        return list(found)

    def _number(self, at: int) -> int:
        return int(np.searchsorted(self._ends, at))

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Where the newlines are."""
        return np.flatnonzero(np.frombuffer(self._text, np.uint8) == ord("\n"))
