"""The library of embeddings: searched and sorted by the database; what users say of them."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import aliased, defer, lazyload

from app.context import PAGE_ROWS, Context
from app.db.models import Embedding, EmbeddingOrigin, EmbeddingStatus, EmbeddingTag, Encoding, Measurement
from app.descriptions.row_list import RowAction, RowList
from app.descriptions.service import DescriptionChange, describe, has_tag
from app.embeddings.service import commit_embedding, find_embedding, get_embedding, require_in_use
from app.embeddings.trash import trash_embedding

MAX_QUERY_CHARACTERS = 200

Sort = Literal[
    "name", "-name", "created", "-created", "n", "-n", "d", "-d",
    "isoscore_unbiased", "-isoscore_unbiased", "isoscore", "-isoscore", "mean_cosine", "-mean_cosine",
]  # fmt: skip
"""By what to sort; with a minus from the greatest, last or newest. What has no such value comes last."""

CORRECTED, ISOSCORE, MEAN_COSINE = aliased(Measurement), aliased(Measurement), aliased(Measurement)
KEYS: dict[str, ColumnElement[Any]] = {
    "name": func.lower(Embedding.name),
    "created": Embedding.created_at.expression,
    "n": Embedding.n.expression,
    "d": Embedding.d.expression,
    "isoscore_unbiased": CORRECTED.value.expression,
    "isoscore": ISOSCORE.value.expression,
    "mean_cosine": MEAN_COSINE.value.expression,
}


WITHOUT_FILES = lazyload(Embedding.files), defer(Embedding.inspection), defer(Embedding.selection)
"""What lists leave unread: a selection may name 100,000 rows."""


@dataclass(frozen=True)
class Search:
    """Which embeddings, and in which order."""

    q: str = ""
    """Words, each of which must be part of the name, the file name, the notes or a tag; case does not matter."""
    tag: str = ""
    origin: EmbeddingOrigin | None = None
    status: EmbeddingStatus | None = None
    layers: bool = False
    """Whether layers of encodings are listed too; they are where encodings are asked for by their origin."""
    trashed: bool = False
    """List the trash instead of the library."""
    sort: Sort = "-created"


class Listed(NamedTuple):
    """An embedding in a list, with the numbers that it can be sorted by."""

    embedding: Embedding
    isoscore_unbiased: float | None
    isoscore: float | None
    mean_cosine: float | None


class Found(NamedTuple):
    """Some of the rows that were found, how many there are, and how many layers were left out of them."""

    rows: list[Listed]
    total: int
    layers_left_out: int


def find_embeddings(context: Context, search: Search, limit: int = PAGE_ROWS, offset: int = 0) -> Found:
    """Rows ``offset`` to ``offset + limit`` of what was searched for, without their files and inspections."""
    wanted = _conditions(search)
    layers = search.layers or search.origin is EmbeddingOrigin.ENCODED
    listed = wanted if layers else [*wanted, Embedding.encoding_id.is_(None)]
    counts = select(func.count(), func.count(Embedding.encoding_id)).select_from(Embedding).where(*wanted)
    rows = _rows().where(*listed).order_by(*_order(search.sort)).limit(limit).offset(offset)
    with context.sessions() as session:
        total, of_layers = session.execute(counts).one()
        left_out = 0 if layers else of_layers
        return Found([Listed(*row) for row in session.execute(rows)], total - left_out, left_out)


def newest_measured(context: Context, limit: int) -> list[Embedding]:
    """The newest embeddings that can be compared, layers of encodings after all others; without files, inspections."""
    ready = (Embedding.trashed_at.is_(None), Embedding.status == EmbeddingStatus.READY)
    newest = select(Embedding).where(*ready).order_by(Embedding.encoding_id.is_not(None), *_order("-created"))
    return context.scalars(newest.limit(limit).options(*WITHOUT_FILES))


def _rows() -> Select[Embedding, float | None, float | None, float | None]:
    def of(alias: type[Measurement], measure: str) -> ColumnElement[bool]:
        return and_(alias.embedding_id == Embedding.id, alias.measure == measure)

    return (
        select(Embedding, CORRECTED.value, ISOSCORE.value, MEAN_COSINE.value)
        .outerjoin(CORRECTED, of(CORRECTED, "isoscore_unbiased"))
        .outerjoin(ISOSCORE, of(ISOSCORE, "isoscore"))
        .outerjoin(MEAN_COSINE, of(MEAN_COSINE, "mean_cosine"))
        .options(*WITHOUT_FILES)
    )


def _conditions(search: Search) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [
        Embedding.trashed_at.is_not(None) if search.trashed else Embedding.trashed_at.is_(None)
    ]
    conditions += [_mentions(word) for word in search.q.split()]
    if search.tag:
        conditions.append(has_tag(Embedding, search.tag))
    if search.status is not None:
        conditions.append(Embedding.status == search.status)
    if search.origin is not None:
        conditions.append(Embedding.origin == search.origin)
    return conditions


def _mentions(word: str) -> ColumnElement[bool]:
    texts = (Embedding.name, Embedding.filename, Embedding.notes)
    return or_(
        *(text.icontains(word, autoescape=True) for text in texts),
        Embedding.tags.any(EmbeddingTag.tag.icontains(word, autoescape=True)),
    )


def _order(sort: Sort) -> tuple[ColumnElement[Any], ...]:
    key = KEYS[sort.removeprefix("-")]
    ordered = key.desc() if sort.startswith("-") else key.asc()
    return ordered.nulls_last(), Embedding.created_at.desc(), Embedding.id.expression


def describe_embedding(context: Context, embedding_id: str, change: DescriptionChange) -> Embedding:
    """Rename an embedding, or change its notes or tags. None leaves a field as it is."""
    with context.sessions.begin() as session:
        embedding = find_embedding(session, embedding_id)
        require_in_use(embedding)
        describe(embedding, change)
    return get_embedding(context, embedding_id)


class LayerPlace(NamedTuple):
    """Where an encoded embedding stands among the layers of its encoding."""

    encoding: Encoding
    previous: str | None
    following: str | None
    """Ids of the layers before and after it, under the same pooling."""


def get_place(context: Context, embedding: Embedding) -> LayerPlace | None:
    """Return an embedding's place among the layers of its encoding; None if it is of none, or deleted meanwhile."""
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


EMBEDDINGS = RowList(
    path="/embeddings",
    title="Embeddings",
    section="data",
    field="id",
    actions={
        "measure": RowAction("Measure drafts", commit_embedding),
        "trash": RowAction("Move to the trash", trash_embedding),
    },
    get_name=lambda context, embedding_id: get_embedding(context, embedding_id).name,
)
