"""The library of embeddings: search, sort, describe, and the layers before and after an embedding."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Query
from pydantic import Field
from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import aliased, defer, lazyload

from app.context import PAGE_ROWS, Context
from app.db.models import Embedding, EmbeddingOrigin, EmbeddingStatus, EmbeddingTag, Encoding, Measurement
from app.descriptions.row_list import RowAction, RowList
from app.descriptions.service import DescriptionChange, apply_description, has_tag
from app.embeddings import service
from app.embeddings.trash import trash_embedding

MAX_QUERY_CHARACTERS = 200

Sort = Literal[
    "name", "-name", "created", "-created", "n", "-n", "d", "-d",
    "isoscore_unbiased", "-isoscore_unbiased", "isoscore", "-isoscore", "mean_cosine", "-mean_cosine",
]  # fmt: skip
"""Sort keys; a minus sorts descending. Embeddings without a value come last."""

CORRECTED, ISOSCORE, MEAN_COSINE = aliased(Measurement), aliased(Measurement), aliased(Measurement)
SORT_KEYS: dict[str, ColumnElement[Any]] = {
    "name": func.lower(Embedding.name),
    "created": Embedding.created_at.expression,
    "n": Embedding.n.expression,
    "d": Embedding.d.expression,
    "isoscore_unbiased": CORRECTED.value.expression,
    "isoscore": ISOSCORE.value.expression,
    "mean_cosine": MEAN_COSINE.value.expression,
}
# Lists skip fields that may be large: a selection may name 100,000 rows.
WITHOUT_LARGE_FIELDS = lazyload(Embedding.files), defer(Embedding.inspection), defer(Embedding.selection)


@dataclass(frozen=True)
class EmbeddingSearch:
    """Conditions and order of a search of the library."""

    q: Annotated[
        str,
        Query(
            max_length=MAX_QUERY_CHARACTERS,
            description="Words to find in names, file names, notes and tags. All must match.",
        ),
    ] = ""
    tag: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS)] = ""
    origin: EmbeddingOrigin | None = None
    status: EmbeddingStatus | None = None
    layers: Annotated[bool, Query(description="Include layers of encodings.")] = False
    """If ``origin`` is ENCODED, layers are listed in any case."""
    trashed: Annotated[bool, Query(description="List the trash instead of the library.")] = False
    sort: Annotated[Sort, Query(description="A minus sorts descending.")] = "-created"


class EmbeddingListed(service.EmbeddingSummary):
    """An embedding in the library, with the measurements that it can be sorted by."""

    isoscore_unbiased: Annotated[float | None, Field(description="Bias-corrected estimate for the population.")]
    isoscore: Annotated[float | None, Field(description="IsoScore of these rows, biased low unless n is many times d.")]
    mean_cosine: float | None


class EmbeddingList(NamedTuple):
    """A page of results, their total number, and the number of matching layers left out."""

    rows: list[EmbeddingListed]
    total: int
    layers_left_out: int


def find_embeddings(
    context: Context, search: EmbeddingSearch, limit: int = PAGE_ROWS, offset: int = 0
) -> EmbeddingList:
    conditions: list[ColumnElement[bool]] = [
        Embedding.trashed_at.is_not(None) if search.trashed else Embedding.trashed_at.is_(None)
    ]
    for word in search.q.split():
        texts = (Embedding.name, Embedding.filename, Embedding.notes)
        mentions = [text.icontains(word, autoescape=True) for text in texts]
        conditions.append(or_(*mentions, Embedding.tags.any(EmbeddingTag.tag.icontains(word, autoescape=True))))
    if search.tag:
        conditions.append(has_tag(Embedding, search.tag))
    if search.status is not None:
        conditions.append(Embedding.status == search.status)
    if search.origin is not None:
        conditions.append(Embedding.origin == search.origin)
    with_layers = search.layers or search.origin is EmbeddingOrigin.ENCODED
    listed_conditions = conditions if with_layers else [*conditions, Embedding.encoding_id.is_(None)]
    counts = select(func.count(), func.count(Embedding.encoding_id)).select_from(Embedding).where(*conditions)
    row_query = select(Embedding, CORRECTED.value, ISOSCORE.value, MEAN_COSINE.value)
    joined_measures = ((CORRECTED, "isoscore_unbiased"), (ISOSCORE, "isoscore"), (MEAN_COSINE, "mean_cosine"))
    for alias, measure in joined_measures:
        row_query = row_query.outerjoin(alias, and_(alias.embedding_id == Embedding.id, alias.measure == measure))
    page_query = (
        row_query.where(*listed_conditions)
        .order_by(*_order_columns(search.sort))
        .limit(limit)
        .offset(offset)
        .options(*WITHOUT_LARGE_FIELDS)
    )
    with context.sessions() as session:
        total, n_layers = session.execute(counts).one()
        layers_left_out = 0 if with_layers else n_layers
        results = [
            EmbeddingListed(
                **service.EmbeddingSummary.model_validate(embedding).model_dump(),
                isoscore_unbiased=corrected,
                isoscore=isoscore,
                mean_cosine=mean_cosine,
            )
            for embedding, corrected, isoscore, mean_cosine in session.execute(page_query)
        ]
    return EmbeddingList(results, total - layers_left_out, layers_left_out)


def list_newest_measured(context: Context, limit: int) -> list[Embedding]:
    """Return the newest measured embeddings outside the trash, those that are not layers of encodings first."""
    ready = (Embedding.trashed_at.is_(None), Embedding.status == EmbeddingStatus.READY)
    newest_query = (
        select(Embedding).where(*ready).order_by(Embedding.encoding_id.is_not(None), *_order_columns("-created"))
    )
    return context.scalars(newest_query.limit(limit).options(*WITHOUT_LARGE_FIELDS))


def _order_columns(sort: Sort) -> tuple[ColumnElement[Any], ...]:
    key = SORT_KEYS[sort.removeprefix("-")]
    ordered = key.desc() if sort.startswith("-") else key.asc()
    return ordered.nulls_last(), Embedding.created_at.desc(), Embedding.id.expression


def describe_embedding(context: Context, embedding_id: str, change: DescriptionChange) -> Embedding:
    """Change the name, notes or tags of an embedding. Raise ConflictError if it is in the trash."""
    with context.sessions.begin() as session:
        embedding = service.find_embedding(session, embedding_id)
        service.require_not_trashed(embedding)
        apply_description(embedding, change)
    return service.get_embedding(context, embedding_id)


class AdjacentLayers(NamedTuple):
    """The encoding of an embedding, and the ids of the layers before and after it; None at either end."""

    encoding: Encoding
    previous_id: str | None
    next_id: str | None


def find_adjacent_layers(context: Context, embedding: Embedding) -> AdjacentLayers | None:
    """Return the layers next to an embedding, with its pooling; None if it is no layer or was just deleted."""
    if embedding.encoding_id is None:
        return None
    layers = select(Embedding.id).where(
        Embedding.encoding_id == embedding.encoding_id,
        Embedding.pooling == embedding.pooling,
        Embedding.trashed_at.is_(None) | (Embedding.id == embedding.id),
    )
    encoding, ids = context.get(Encoding, embedding.encoding_id), context.scalars(layers.order_by(Embedding.layer))
    if encoding is None or embedding.id not in ids:
        return None
    index = ids.index(embedding.id)
    return AdjacentLayers(encoding, ids[index - 1] if index else None, ids[index + 1] if index + 1 < len(ids) else None)


EMBEDDINGS = RowList(
    path="/embeddings",
    title="Embeddings",
    section="data",
    field="id",
    actions={
        "measure": RowAction("Measure drafts", service.commit_embedding),
        "trash": RowAction("Move to the trash", trash_embedding),
    },
    get_name=lambda context, embedding_id: service.get_embedding(context, embedding_id).name,
)
