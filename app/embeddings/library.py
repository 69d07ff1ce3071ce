"""The library of embeddings: searched and sorted by the database; names, notes and tags."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import aliased, defer, lazyload

from app.context import PAGE_ROWS, Context
from app.core.names import MAX_NAME_CHARACTERS
from app.db.models import Embedding, EmbeddingOrigin, EmbeddingStatus, EmbeddingTag, Encoding, Measurement
from app.embeddings.service import find_embedding, get_embedding, require_in_use
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import one_line
from isoscope.files.wording import shown

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


def known_tags(context: Context) -> list[str]:
    """The tags of all embeddings that are not in the trash, each once whatever its case, in alphabetical order."""
    tags = select(EmbeddingTag.tag).join(Embedding).where(Embedding.trashed_at.is_(None)).distinct()
    with context.sessions() as session:
        found = session.scalars(tags.order_by(EmbeddingTag.tag.desc()))
        return sorted({tag.lower(): tag for tag in found}.values(), key=str.lower)


def newest_measured(context: Context, limit: int) -> list[Embedding]:
    """The newest embeddings that can be compared, layers of encodings after all others; without files, inspections."""
    ready = (Embedding.trashed_at.is_(None), Embedding.status == EmbeddingStatus.READY)
    newest = select(Embedding).where(*ready).order_by(Embedding.encoding_id.is_not(None), *_order("-created"))
    with context.sessions() as session:
        return list(session.scalars(newest.limit(limit).options(*WITHOUT_FILES)))


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
        conditions.append(Embedding.tags.any(func.lower(EmbeddingTag.tag) == func.lower(search.tag)))
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


MAX_NOTES_CHARACTERS = 10_000
MAX_TAGS = 20
MAX_TAG_CHARACTERS = 40


def describe_embedding(
    context: Context,
    embedding_id: str,
    name: str | None = None,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
) -> Embedding:
    """Rename an embedding, write its notes, tag it; what is None stays as it is."""
    with context.sessions.begin() as session:
        embedding = find_embedding(session, embedding_id)
        require_in_use(embedding)
        if name is not None:
            embedding.name = _clean_name(name)
        if notes is not None:
            embedding.notes = _clean_notes(notes)
        if tags is not None:
            there = {one.tag: one for one in embedding.tags}
            embedding.tags = [there.get(tag) or EmbeddingTag(tag=tag) for tag in clean_tags(tags)]
    return get_embedding(context, embedding_id)


def split_tags(text: str) -> list[str]:
    """The tags of a text in which commas part them."""
    return text.split(",")


def clean_tags(tags: Sequence[str]) -> list[str]:
    """Tags without blanks around them and none twice, whatever their case: the first spelling stays."""
    cleaned = [one_line(tag) for tag in tags]
    distinct = {tag.lower(): tag for tag in reversed(cleaned) if tag}
    for tag in distinct.values():
        if "," in tag:
            raise InvalidError(f"Expected tags without commas, which part tags on the page; got {shown(tag)}.", "tags")
        if len(tag) > MAX_TAG_CHARACTERS:
            raise InvalidError(
                f"Expected tags of at most {MAX_TAG_CHARACTERS} characters, got {shown(tag)} of {len(tag):,}. "
                "Shorten it, or write it into the notes.",
                "tags",
            )
    if len(distinct) > MAX_TAGS:
        raise InvalidError(f"Expected at most {MAX_TAGS} tags, got {len(distinct)}. Leave some out.", "tags")
    return sorted(distinct.values(), key=str.lower)


def _clean_name(name: str) -> str:
    cleaned = one_line(name)
    if not cleaned:
        raise InvalidError("Expected a name, got nothing that can be read. Type one.", "name")
    if len(cleaned) > MAX_NAME_CHARACTERS:
        raise InvalidError(
            f"Expected a name of at most {MAX_NAME_CHARACTERS} characters, got {len(cleaned)}. Shorten it, "
            "or write it into the notes.",
            "name",
        )
    return cleaned


def _clean_notes(notes: str) -> str:
    """Notes with line breaks of one kind, without what no database or page can keep."""
    lines = notes.replace("\r\n", "\n").replace("\r", "\n").strip()
    if len(lines) > MAX_NOTES_CHARACTERS:
        raise InvalidError(
            f"Expected notes of at most {MAX_NOTES_CHARACTERS:,} characters, got {len(lines):,}. Shorten them.", "notes"
        )
    return "".join(letter if _is_text(letter) else " " for letter in lines)


def _is_text(letter: str) -> bool:
    """Whether it is neither a control character, but for line breaks and tabs, nor half of a character."""
    return letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs")


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


def name_encodings(context: Context) -> dict[str, str]:
    """Return the names of encodings by their ids."""
    with context.sessions() as session:
        return dict(session.execute(select(Encoding.id, Encoding.name)).all())
