"""Shrinkage-zeta curves: those of the report, and those asked for towards the covariance of another embedding."""

from typing import NamedTuple

from sqlalchemy import or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.db import job_kinds
from app.db.models import Embedding, EmbeddingStatus, ResultStatus, ZetaCurve
from app.queue import Job
from app.services.embeddings import find_embedding, require_measured
from app.services.library import OFFERED
from app.services.results import repeat_failed
from isoscope.core.errors import InvalidError, NotFoundError


class CurveSource(NamedTuple):
    """An embedding whose covariance that of another may be shrunk towards."""

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
