"""The shrinkage-zeta curve of an embedding: which curve, which of its lines, read off at which ζ."""

from typing import NamedTuple
from urllib.parse import urlencode

from app.context import Context
from app.db.models import Embedding, ResultStatus, ZetaCurve
from app.figures.curves import Line, choose, read_lines, zeta_curve
from app.figures.figure import Figure
from app.services.curves import list_curve_sources

OWN_SOURCES = {
    "identity": "the identity, scaled to the data",
    "sample": "all rows of this file",
}


class ShrinkageQuery(NamedTuple):
    """What the URL says: a ζ, a number of rows, and ``identity``, ``sample`` or the id of an embedding."""

    zeta: float
    rows: int | None
    source: str

    def encoded(self) -> str:
        """The query string again."""
        given = {"zeta": f"{self.zeta:g}", "rows": self.rows, "source": self.source}
        return urlencode({name: value for name, value in given.items() if value is not None})


class Shrinkage(NamedTuple):
    """What the page shows of it. ``curve`` is None until it has been asked for."""

    query: ShrinkageQuery
    sources: dict[str, str]
    curve: ZetaCurve | None
    lines: list[Line]
    chosen: Line | None
    figure: Figure | None

    @property
    def waiting(self) -> bool:
        """Whether a worker still has to compute the curve."""
        return self.curve is not None and self.curve.status is ResultStatus.QUEUED


def read_shrinkage(context: Context, embedding: Embedding, query: ShrinkageQuery) -> Shrinkage:
    """The curve that the query names, and the line and figure it chooses of it."""
    sources = OWN_SOURCES | _others(context, embedding)
    curve = next((one for one in embedding.curves if query.source == (one.source_id or one.source)), None)
    if curve is not None:
        sources.setdefault(query.source, "another embedding")
    lines = read_lines(curve.lines or []) if curve else []
    if not lines:
        return Shrinkage(query, sources, curve, [], None, None)
    chosen = choose(lines, query.rows)
    figure = zeta_curve(lines, chosen, query.zeta, sources[query.source])
    return Shrinkage(query, sources, curve, lines, chosen, figure)


def _others(context: Context, embedding: Embedding) -> dict[str, str]:
    """Other measured embeddings of as many dimensions."""
    return {one.id: f"{one.name} ({one.n or 0:,} rows)" for one in list_curve_sources(context, embedding)}
