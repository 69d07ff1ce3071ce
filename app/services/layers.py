"""The layers of an encoding, each an embedding: what was measured of them, and their order."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import defer, lazyload, selectinload

from app.context import Context
from app.db.models import Embedding, Encoding, Measurement


class LayerPlace(NamedTuple):
    """Where an encoded embedding stands among the layers of its encoding."""

    encoding: Encoding
    previous: str | None
    following: str | None
    """Ids of the layers before and after it, under the same pooling."""


def list_layers(context: Context, encoding_id: str, measures: Sequence[str] | None = None) -> list[Embedding]:
    """The embeddings of an encoding by layer and pooling, with these measurements or all, without their details.

    Two queries, however many there are; those in the trash are left out.
    """
    found = select(Embedding).where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None))
    wanted = (
        Embedding.measurements if measures is None else Embedding.measurements.and_(Measurement.measure.in_(measures))
    )
    options = (
        defer(Embedding.inspection, raiseload=True),
        defer(Embedding.selection, raiseload=True),
        lazyload(Embedding.files),
        lazyload(Embedding.tags),
        selectinload(wanted).defer(Measurement.detail, raiseload=True),
    )
    with context.sessions() as session:
        layers = session.scalars(found.order_by(Embedding.layer, Embedding.pooling).options(*options))
        return list(layers)


def list_measured(context: Context, encoding_id: str) -> set[str]:
    """The measures that have a value at some layer of an encoding that is not in the trash."""
    of_layers = select(Measurement.measure).join(Embedding, Embedding.id == Measurement.embedding_id)
    in_use = of_layers.where(Embedding.encoding_id == encoding_id, Embedding.trashed_at.is_(None))
    valued = in_use.where(Measurement.value.is_not(None))
    with context.sessions() as session:
        return set(session.scalars(valued.distinct()))


def get_place(context: Context, embedding: Embedding) -> LayerPlace | None:
    """Where an embedding stands among the layers of its encoding; None if it is of none, or deleted meanwhile."""
    if embedding.encoding_id is None:
        return None
    beside = select(Embedding.id).where(
        Embedding.encoding_id == embedding.encoding_id,
        Embedding.pooling == embedding.pooling,
        Embedding.trashed_at.is_(None) | (Embedding.id == embedding.id),
    )
    with context.sessions() as session:
        encoding = session.get(Encoding, embedding.encoding_id)
        ids = list(session.scalars(beside.order_by(Embedding.layer)))
    if encoding is None or embedding.id not in ids:
        return None
    own = ids.index(embedding.id)
    return LayerPlace(encoding, ids[own - 1] if own else None, ids[own + 1] if own + 1 < len(ids) else None)
