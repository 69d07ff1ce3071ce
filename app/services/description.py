"""What a user says of an embedding: its name, its notes and its tags."""

import unicodedata
from collections.abc import Sequence

from app.context import Context
from app.db.models import Embedding, EmbeddingTag
from app.services.embeddings import find_embedding, get_embedding, require_in_use
from app.services.names import MAX_NAME_CHARACTERS
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import one_line
from isoscope.files.wording import shown

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
