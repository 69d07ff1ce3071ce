"""Name, notes and tags of rows, checked and written: embeddings and experiments have all three, runs have tags."""

import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import ColumnElement, func, select, union

from app.context import Context
from app.core.names import MAX_NAME_CHARACTERS
from app.db.models import MAX_TAG_CHARACTERS, MAX_TAGS, Described, Embedding, Experiment, Run, Tagged
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import one_line, quote
from isoscope.files.strict import Strict

MAX_NOTES_CHARACTERS = 10_000
TAGGED = (Embedding, Experiment, Run)


class DescriptionChange(Strict):
    """A change to a row's name, notes or tags. Null or absent fields stay as they are."""

    name: Annotated[str | None, Field(description="1 to 200 characters.")] = None
    notes: Annotated[str | None, Field(description="Plain text of at most 10,000 characters.")] = None
    tags: Annotated[
        list[str] | None,
        Field(description="All its tags: at most 20 of at most 40 characters, without commas. Case is ignored."),
    ] = None


def apply_description(row: Described, change: DescriptionChange) -> None:
    """Apply a change to a row; raise InvalidError at the field that is wrong."""
    if change.name is not None:
        cleaned = one_line(change.name)
        if not cleaned:
            raise InvalidError("The name has no visible characters. Enter a name.", "name")
        if len(cleaned) > MAX_NAME_CHARACTERS:
            raise InvalidError(
                f"Expected a name of at most {MAX_NAME_CHARACTERS} characters, got {len(cleaned)}. Shorten it, "
                "or write it into the notes.",
                "name",
            )
        row.name = cleaned
    if change.notes is not None:
        # Normalize line breaks, and replace control characters and lone surrogates, which databases reject.
        text = change.notes.replace("\r\n", "\n").replace("\r", "\n").strip()
        if len(text) > MAX_NOTES_CHARACTERS:
            raise InvalidError(
                f"Expected notes of at most {MAX_NOTES_CHARACTERS:,} characters, got {len(text):,}. Shorten them.",
                "notes",
            )
        row.notes = "".join(
            letter if letter in "\n\t" or unicodedata.category(letter) not in ("Cc", "Cs") else " " for letter in text
        )
    if change.tags is not None:
        set_tags(row, change.tags)


def set_tags(row: Tagged, tags: Sequence[str]) -> None:
    """Replace the tags of a row, but keep the rows of tags that stay. Raise InvalidError for an invalid tag."""
    tag_rows = {tag_row.tag: tag_row for tag_row in row.tags}
    tag_class = type(row).tags.property.mapper.class_
    row.tags = [tag_rows.get(tag) or tag_class(tag=tag) for tag in clean_tags(tags)]


def has_tag(table: type[Embedding | Experiment], tag: str) -> ColumnElement[bool]:
    """Return the condition that rows have a tag, ignoring its case."""
    tag_class = table.tags.property.mapper.class_
    return table.tags.any(func.lower(tag_class.tag) == func.lower(tag))


def collect_tags(context: Context, *tables: type[Tagged]) -> list[str]:
    """Return the sorted tags, distinct ignoring case, of rows outside the trash. Without ``tables``, read all."""
    selections = []
    for table in tables or TAGGED:
        tag_class: Any = table.tags.property.mapper.class_
        deleted_at = Embedding.trashed_at if table is Embedding else Experiment.removed_at
        tag_query = select(tag_class.tag).join(table)
        selections.append((tag_query.join(Run.experiment) if table is Run else tag_query).where(deleted_at.is_(None)))
    with context.sessions() as session:
        tags: list[str] = list(session.scalars(union(*selections)))
    distinct = {tag.lower(): tag for tag in sorted(tags, reverse=True)}
    return sorted(distinct.values(), key=str.lower)


def clean_tags(tags: Sequence[str]) -> list[str]:
    """Return stripped, distinct tags in alphabetical order. Of spellings that differ only in case, keep the first."""
    cleaned = [one_line(tag) for tag in tags]
    distinct = {tag.lower(): tag for tag in reversed(cleaned) if tag}
    for tag in distinct.values():
        if "," in tag:
            raise InvalidError(f"Tags cannot contain commas, because commas separate tags. Got {quote(tag)}.", "tags")
        if len(tag) > MAX_TAG_CHARACTERS:
            raise InvalidError(
                f"Expected tags of at most {MAX_TAG_CHARACTERS} characters, got {quote(tag)} of {len(tag):,}. "
                "Shorten it, or write it into the notes.",
                "tags",
            )
    if len(distinct) > MAX_TAGS:
        raise InvalidError(f"Expected at most {MAX_TAGS} tags, got {len(distinct)}. Leave some out.", "tags")
    return sorted(distinct.values(), key=str.lower)
