"""What figures of a report show and no single measure holds."""

from typing import Any

from sqlalchemy import select

from app.context import Context
from app.db.models import EmbeddingStatus, FigureData
from app.services.embeddings import get_embedding
from isoscope.core.errors import NotFoundError


def get_figure_data(context: Context, embedding_id: str, *slugs: str) -> dict[str, dict[str, Any]]:
    """What the figures of an embedding's report show beside its measurements, by slug; all, or of ``slugs``."""
    wanted = select(FigureData).where(FigureData.embedding_id == embedding_id)
    if slugs:
        wanted = wanted.where(FigureData.slug.in_(slugs))
    with context.sessions() as session:
        return {one.slug: one.data for one in session.scalars(wanted)}


def get_stored_figure(context: Context, embedding_id: str, slug: str) -> dict[str, Any]:
    """What one figure of an embedding shows beside its measurements."""
    data = get_figure_data(context, embedding_id, slug)
    if slug not in data:
        embedding = get_embedding(context, embedding_id)
        if embedding.status is not EmbeddingStatus.READY:
            raise NotFoundError(
                f"There is no {slug!r} of {embedding.name}, which is {embedding.status}: it comes with the measures."
            )
        needs = "its rows have no names, or " if slug == "neighbours" else ""
        raise NotFoundError(
            f"There is no {slug!r} of {embedding.name}: {needs}another version of Isoscope measured it. Choose again "
            f"to measure it with this version."
        )
    return data[slug]


def get_figure_slugs(context: Context, embedding_id: str) -> set[str]:
    """Of which figures an embedding has data, without reading these."""
    with context.sessions() as session:
        return set(session.scalars(select(FigureData.slug).where(FigureData.embedding_id == embedding_id)))
