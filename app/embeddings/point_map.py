"""The map of an embedding's rows: its header, its files, and the groups of rows that share a color."""

from typing import NamedTuple, Self

from pydantic import BaseModel
from sqlalchemy import select

from app.context import Context
from app.db.models import Embedding, FigureFile
from app.db.point_map import MAP, MAP_COLUMN, MAP_NAMES, MAP_NEIGHBORS, MapHeader, MapLabels, Section
from app.embeddings.figures.projection import OTHERS, UNLABELLED
from app.embeddings.service import find_embedding, get_stored_figure
from app.figures import palette
from app.storage.storage import Download
from isoscope.core.errors import NotFoundError
from isoscope.core.formatting import count

ALL = "all rows"
FILE_NAMES = {MAP: "points.bin", MAP_NAMES: "names.txt", MAP_NEIGHBORS: "neighbors.bin"}
COLUMN_FILE = "column.bin"
RAMP = (palette.MAIN, "#2f6fb3", palette.OTHER, palette.MARKED)
"""Colors from the least number to the greatest, each with enough contrast to light and dark paper."""


class MapGroup(BaseModel):
    """Rows of a map that share a color: those of a label, of all further labels, or without one."""

    name: str
    count: int
    colour: str


class MapGroups(NamedTuple):
    """The groups of a map, and the group of each label."""

    groups: list[MapGroup]
    of_label: list[int]

    @classmethod
    def from_labels(cls, labels: MapLabels | None, points: int) -> Self:
        """The most frequent labels in colors of their own, then the other labels, then rows without one."""
        if labels is None:
            return cls([MapGroup(name=ALL, count=points, colour=palette.MAIN)], [])
        groups: dict[str | int, MapGroup] = {}
        keys: list[str | int] = []
        for place, (name, number) in enumerate(zip(labels.names, labels.counts, strict=True)):
            own = bool(name) and place < len(palette.SERIES)
            key = place if own else OTHERS if name else UNLABELLED
            colour = palette.SERIES[place] if own else palette.QUIET
            group = groups.setdefault(key, MapGroup(name=name if own else str(key), count=0, colour=colour))
            group.count += number
            keys.append(key)
        order = {key: place for place, key in enumerate(groups)}
        return cls(list(groups.values()), [order[key] for key in keys])


class ColorColumn(NamedTuple):
    """A kept column of a map."""

    name: str
    slug: str
    groups: MapGroups | None
    """None of a column of numbers."""


class PointMap(NamedTuple):
    """A map as it is stored."""

    header: MapHeader
    files: dict[str, str]
    """Hashes by slug."""
    groups: MapGroups

    @property
    def ramp(self) -> tuple[str, ...]:
        """Colors of a number from its least value to its greatest."""
        return RAMP

    @property
    def words(self) -> str:
        """What the map shows."""
        header = self.header
        shown = (
            f"{count(header.points)} of {count(header.n)} rows, drawn at random,"
            if self.is_sample
            else (f"All {count(header.n)} rows")
        )
        first, second = (f"{share:.1%}" for share in header.shares)
        return f"{shown} along the first two principal components ({first} and {second} of the variance)."

    @property
    def is_sample(self) -> bool:
        """Whether it shows some of the rows only."""
        return self.header.points < self.header.n

    @property
    def columns(self) -> list[ColorColumn]:
        """What else rows can be colored by."""
        columns = self.header.columns
        return [
            ColorColumn(
                one.name, MAP_COLUMN.format(place), MapGroups.from_labels(one.labels, 0) if one.labels else None
            )
            for place, one in enumerate(columns)
        ]


class DrawnColumn(BaseModel):
    """What colors rows by a column."""

    name: str
    address: str
    values: Section
    groups: list[MapGroup] | None
    """None of a column of numbers, which a ramp colors."""
    group_of_label: list[int]


class MapDocument(BaseModel):
    """What draws a map: its header, where its files lie, and its colors."""

    header: MapHeader
    points: str
    """Address of the points."""
    names: str | None
    """Address of the names of rows; null where rows have none."""
    groups: list[MapGroup]
    group_of_label: list[int]
    columns: list[DrawnColumn]
    ramp: list[str]
    quiet: str
    """Color of rows without a number."""


def find_map(context: Context, embedding: Embedding) -> PointMap | None:
    """The map of an embedding; None where an earlier version measured it, and where there is nothing to draw."""
    try:
        return get_map(context, embedding.id)
    except NotFoundError:
        return None


def get_map(context: Context, embedding_id: str) -> PointMap:
    """The map of an embedding."""
    data = get_stored_figure(context, embedding_id, MAP)
    if data.get("reason"):
        raise NotFoundError(f"There is no map: {data['reason']}")
    header = MapHeader.model_validate(data)
    wanted = select(FigureFile.slug, FigureFile.file_sha256).where(FigureFile.embedding_id == embedding_id)
    with context.sessions() as session:
        files = {row.slug: row.file_sha256 for row in session.execute(wanted)}
    if MAP not in files:
        raise NotFoundError("The points of this map are gone. Choose again to measure the embedding again.")
    return PointMap(header, files, MapGroups.from_labels(header.labels, header.points))


def document_of(found: PointMap, base: str) -> MapDocument:
    """What draws a map whose files lie below an address, each under its hash: what an address has never changes."""
    at = {slug: f"{base}/{sha256}/{_file_name(slug)}" for slug, sha256 in found.files.items()}
    return MapDocument(
        header=found.header,
        points=at[MAP],
        names=at.get(MAP_NAMES),
        groups=found.groups.groups,
        group_of_label=found.groups.of_label,
        columns=[
            DrawnColumn(
                name=one.name,
                address=at[one.slug],
                values=header.values,
                groups=one.groups and one.groups.groups,
                group_of_label=one.groups.of_label if one.groups else [],
            )
            for one, header in zip(found.columns, found.header.columns, strict=True)
        ],
        ramp=list(RAMP),
        quiet=palette.QUIET,
    )


def get_map_file(context: Context, embedding_id: str, sha256: str) -> Download:
    """A file of an embedding's map by its hash."""
    wanted = select(FigureFile.slug).where(FigureFile.embedding_id == embedding_id, FigureFile.file_sha256 == sha256)
    with context.sessions() as session:
        find_embedding(session, embedding_id)
        slug = session.scalar(wanted.limit(1))
    if slug is None:
        raise NotFoundError("This embedding's map has no such file. It may have been measured again: reload the page.")
    return Download(context.storage.local(sha256), _file_name(slug))


def _file_name(slug: str) -> str:
    return FILE_NAMES.get(slug, COLUMN_FILE)
