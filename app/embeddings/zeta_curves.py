"""Shrinkage-zeta curves, toward the default covariances or that of another embedding (the source)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query
from sqlalchemy import Row, or_, select
from sqlalchemy.orm import Session

from app.context import MAX_CHOICES, Context
from app.db import job_kinds
from app.db.models import Embedding, EmbeddingStatus, ZetaCurve
from app.embeddings.figures.sample_size import ZetaLine, choose_zeta_line, parse_zeta_lines, zeta_curve
from app.embeddings.service import find_embedding, request_result, require_measured
from app.figures.figure import Figure
from isoscope.core.errors import InvalidError, NotFoundError

DEFAULT_SOURCES = {"identity": "the identity, scaled to the data", "sample": "all rows of this file"}


def list_curve_sources(context: Context, embedding: Embedding) -> Sequence[Row[str, str, int | None]]:
    """Return id, name and n of other embeddings with the same d: layers of the same encoding first, then the newest."""
    candidates = select(Embedding.id, Embedding.name, Embedding.n).where(
        Embedding.id != embedding.id,
        Embedding.d == embedding.d,
        Embedding.status == EmbeddingStatus.READY,
        Embedding.trashed_at.is_(None),
        or_(Embedding.encoding_id.is_(None), Embedding.encoding_id == embedding.encoding_id),
    )
    order = (Embedding.encoding_id.is_(None), Embedding.created_at.desc(), Embedding.id)
    with context.sessions() as session:
        return session.execute(candidates.order_by(*order).limit(MAX_CHOICES)).all()


def get_zeta_curve(context: Context, embedding_id: str, source: str, source_id: str | None = None) -> ZetaCurve:
    if (source == "embedding") != (source_id is not None):
        raise InvalidError("Give `source=embedding` and `source_id` together, or neither.", "source")
    with context.sessions() as session:
        find_embedding(session, embedding_id)
        curve = _find_curve(session, embedding_id, source, source_id)
    if curve is None:
        raise NotFoundError(f"There is no shrinkage-zeta curve with source {source!r} for this embedding yet.")
    return curve


def request_zeta_curve(context: Context, embedding_id: str, source_id: str) -> ZetaCurve:
    """Queue the curve with another embedding's covariance, unless it exists. Retry it if it failed."""
    with context.sessions() as session:
        embedding, source = find_embedding(session, embedding_id), find_embedding(session, source_id)
        require_measured(embedding, "a shrinkage-zeta curve")
        require_measured(source, "a shrinkage-zeta curve")
        if embedding.d != source.d:
            raise InvalidError(
                f"{embedding.name} has {embedding.d} dimensions and {source.name} has {source.d}. Choose one with the "
                "same number.",
                "source_id",
            )
        curve = _find_curve(session, embedding_id, "embedding", source_id)
    new_curve = ZetaCurve(embedding_id=embedding_id, source="embedding", source_id=source_id)
    request_result(context, job_kinds.CURVE, curve, new_curve)
    return get_zeta_curve(context, embedding_id, "embedding", source_id)


def _find_curve(session: Session, embedding_id: str, source: str, source_id: str | None) -> ZetaCurve | None:
    return session.scalar(
        select(ZetaCurve).where(
            ZetaCurve.embedding_id == embedding_id,
            ZetaCurve.source == source,
            ZetaCurve.source_id.is_(None) if source_id is None else ZetaCurve.source_id == source_id,
        )
    )


class ShrinkageQuery(NamedTuple):
    """Query of the curve: the marked ζ, the number of rows of the marked line, and the covariance at ζ = 1."""

    zeta: Annotated[float, Query(ge=0, le=1)] = 0.2
    rows: int | None = None
    source: str = "identity"  # ``identity``, ``sample`` or the id of an embedding

    def to_query_string(self) -> str:
        parameters = {"zeta": f"{self.zeta:g}", "rows": self.rows, "source": self.source}
        return urlencode({name: value for name, value in parameters.items() if value is not None})


class Shrinkage(NamedTuple):
    """A shrinkage-zeta curve in a report. ``curve`` is None until requested, the last two until computed."""

    query: ShrinkageQuery
    sources: dict[str, str]  # Titles of covariances by the query's ``source``
    curve: ZetaCurve | None
    lines: list[ZetaLine]
    chosen: ZetaLine | None
    figure: Figure | None


def read_shrinkage(context: Context, embedding: Embedding, query: ShrinkageQuery) -> Shrinkage:
    embeddings = list_curve_sources(context, embedding)
    sources = DEFAULT_SOURCES | {source.id: f"{source.name} ({source.n or 0:,} rows)" for source in embeddings}
    curve = next((curve for curve in embedding.curves if query.source == (curve.source_id or curve.source)), None)
    if curve is not None:
        sources.setdefault(query.source, "another embedding")
    lines = parse_zeta_lines(curve.lines or []) if curve else []
    if not lines:
        return Shrinkage(query, sources, curve, lines=[], chosen=None, figure=None)
    line = choose_zeta_line(lines, query.rows)
    return Shrinkage(query, sources, curve, lines, line, zeta_curve(lines, line, query.zeta, sources[query.source]))


ShrinkageDep = Annotated[ShrinkageQuery, Depends()]
