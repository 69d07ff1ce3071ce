"""Reference values beside the measures of a report: known clouds, and the embeddings that the user has starred."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import func, select

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus, Measurement
from isotropy.catalog import references

MAX_STARRED = 20
"""Starred embeddings that are shown, by name."""


class Known(NamedTuple):
    """What a known cloud or a starred embedding scores on one measure."""

    name: str
    about: str
    href: str | None
    """Its report; None of clouds that are in no library."""
    value: float
    se: float | None
    n: int
    """Rows behind the value."""
    d: int


class ReferenceValues(NamedTuple):
    """Of one measure, those known to everybody and the user's own."""

    known: list[Known]
    starred: list[Known]


def references_of(context: Context, embedding: Embedding, *, own: bool = True) -> dict[str, ReferenceValues]:
    """Return reference values for the measures of an embedding, by slug; with ``own`` those starred in the library.

    Measures without any are left out.
    """
    found: dict[str, ReferenceValues] = {}
    for slug, one in _built_in():
        found.setdefault(slug, ReferenceValues([], [])).known.append(one)
    for slug, one in _starred(context, embedding) if own else ():
        found.setdefault(slug, ReferenceValues([], [])).starred.append(one)
    return found


def _built_in() -> Iterator[tuple[str, Known]]:
    for cloud in references():
        for slug, (value, se, n) in cloud.values.items():
            yield slug, Known(cloud.name, cloud.about, None, value, se, n, cloud.d)


def _starred(context: Context, embedding: Embedding) -> Iterator[tuple[str, Known]]:
    """Yield what the starred embeddings score, without the one that the report is of."""
    usable = (
        Embedding.starred.is_(True),
        Embedding.id != embedding.id,
        Embedding.status == EmbeddingStatus.READY,
        Embedding.trashed_at.is_(None),
    )
    by_name = func.lower(Embedding.name), Embedding.id
    chosen = select(Embedding.id, Embedding.name, Embedding.d).where(*usable).order_by(*by_name).limit(MAX_STARRED)
    columns = Measurement.embedding_id, Measurement.measure, Measurement.value, Measurement.se, Measurement.n
    with context.sessions() as session:
        starred = session.execute(chosen).all()
        ids = [one.id for one in starred]
        rows = session.execute(select(*columns).where(Measurement.embedding_id.in_(ids))).all() if ids else []
    for one in starred:
        for embedding_id, slug, value, se, n in rows:
            if embedding_id == one.id and value is not None:
                yield slug, Known(one.name, "", f"/embeddings/{one.id}", value, se, n, one.d or 0)
