"""Shrinkage-zeta curves: those of the report, those asked for toward another covariance, read off at a zeta."""

from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query
from sqlalchemy import or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import OFFERED, Context
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Embedding, EmbeddingStatus, ResultStatus, ZetaCurve
from app.embeddings.figures.sample_size import ZetaLine, choose_line, read_lines, zeta_curve
from app.embeddings.service import find_embedding, repeat_failed, require_measured
from app.figures.figure import Figure
from isoscope.core.errors import InvalidError, NotFoundError


class CurveSource(NamedTuple):
    """An embedding whose covariance that of another may be shrunk toward."""

    id: str
    name: str
    n: int | None


def list_curve_sources(context: Context, embedding: Embedding) -> list[CurveSource]:
    """Other measured embeddings of as many dimensions: layers of the same encoding, then the newest, none a layer."""
    others = select(Embedding.id, Embedding.name, Embedding.n).where(
        Embedding.id != embedding.id,
        Embedding.d == embedding.d,
        Embedding.status == EmbeddingStatus.READY,
        Embedding.trashed_at.is_(None),
        or_(Embedding.encoding_id.is_(None), Embedding.encoding_id == embedding.encoding_id),
    )
    order = (Embedding.encoding_id.is_(None), Embedding.created_at.desc(), Embedding.id)
    with context.sessions() as session:
        return [CurveSource(*row) for row in session.execute(others.order_by(*order).limit(OFFERED))]


def get_zeta_curve(context: Context, embedding_id: str, source: str, source_id: str | None = None) -> ZetaCurve:
    """The stored shrinkage-zeta curve of a source: ``identity``, ``sample`` or ``embedding`` with its id."""
    if (source == "embedding") != (source_id is not None):
        raise InvalidError("Give `source=embedding` and `source_id` together, or neither.", "source")
    with context.sessions() as session:
        find_embedding(session, embedding_id)
        curve = _find_curve(session, embedding_id, source, source_id)
    if curve is None:
        raise NotFoundError(f"There is no shrinkage-zeta curve with source {source!r} for this embedding yet.")
    return curve


def request_zeta_curve(context: Context, embedding_id: str, source_id: str) -> ZetaCurve:
    """Have the curve with another embedding's covariance computed, unless it is there already; a failed one again."""
    with context.sessions() as session:
        embedding, source = find_embedding(session, embedding_id), find_embedding(session, source_id)
        for one in (embedding, source):
            require_measured(one, "a shrinkage-zeta curve")
        if embedding.d != source.d:
            raise InvalidError(
                f"Expected an embedding of {embedding.d} dimensions as {embedding.name} has, "
                f"got {source.name} of {source.d}. Choose another.",
                "source_id",
            )
        curve = _find_curve(session, embedding_id, "embedding", source_id)
    if curve is None:
        _add_curve(context, embedding_id, source_id)
    elif curve.status is ResultStatus.FAILED:
        repeat_failed(context, ZetaCurve, Job(job_kinds.CURVE, curve.id))
    return get_zeta_curve(context, embedding_id, "embedding", source_id)


def _add_curve(context: Context, embedding_id: str, source_id: str) -> None:
    curve = ZetaCurve(embedding_id=embedding_id, source="embedding", source_id=source_id)
    try:
        with context.sessions.begin() as session:
            session.add(curve)
    except IntegrityError:
        return  # the same curve was asked for, or an embedding deleted, at this moment: a look will tell
    context.queue.enqueue(Job(job_kinds.CURVE, curve.id))


def _find_curve(session: Session, embedding_id: str, source: str, source_id: str | None) -> ZetaCurve | None:
    return session.scalar(
        select(ZetaCurve).where(
            ZetaCurve.embedding_id == embedding_id,
            ZetaCurve.source == source,
            ZetaCurve.source_id.is_(None) if source_id is None else ZetaCurve.source_id == source_id,
        )
    )


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
    lines: list[ZetaLine]
    chosen: ZetaLine | None
    figure: Figure | None

    @property
    def waiting(self) -> bool:
        """Whether a worker still has to compute the curve."""
        return self.curve is not None and self.curve.waiting


def read_shrinkage(context: Context, embedding: Embedding, query: ShrinkageQuery) -> Shrinkage:
    """The curve that the query names, and the line and figure it chooses of it."""
    sources = OWN_SOURCES | _others(context, embedding)
    curve = next((one for one in embedding.curves if query.source == (one.source_id or one.source)), None)
    if curve is not None:
        sources.setdefault(query.source, "another embedding")
    lines = read_lines(curve.lines or []) if curve else []
    if not lines:
        return Shrinkage(query, sources, curve, [], None, None)
    chosen = choose_line(lines, query.rows)
    figure = zeta_curve(lines, chosen, query.zeta, sources[query.source])
    return Shrinkage(query, sources, curve, lines, chosen, figure)


def _others(context: Context, embedding: Embedding) -> dict[str, str]:
    """Other measured embeddings of as many dimensions."""
    return {one.id: f"{one.name} ({one.n or 0:,} rows)" for one in list_curve_sources(context, embedding)}


def _shrinkage(
    zeta: Annotated[float, Query(ge=0, le=1)] = 0.2, rows: int | None = None, source: str = "identity"
) -> ShrinkageQuery:
    return ShrinkageQuery(zeta, rows, source)


ShrinkageDep = Annotated[ShrinkageQuery, Depends(_shrinkage)]
