"""Name, notes, tags, star and archive: checked and written for embeddings and experiments alike; tags for runs too."""

import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from sqlalchemy import ColumnElement, Select, func, select, union

from app.context import Context
from app.core.names import MAX_NAME_CHARACTERS
from app.db.models import MAX_TAG_CHARACTERS, MAX_TAGS, Described, Embedding, Experiment, Run, Tagged
from app.db.types import utcnow
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import one_line, shown
from isoscope.files.strict import Strict

MAX_NOTES_CHARACTERS = 10_000

Table = type[Embedding] | type[Experiment]
TAGGED = (Embedding, Experiment, Run)


class Shelf(StrEnum):
    """Part of a list, by what users said of its rows."""

    ACTIVE = "active"
    STARRED = "starred"
    ARCHIVED = "archived"
    ALL = "all"


ShelfQuery = Annotated[Shelf, Query(description="`active` leaves out what is archived.")]


class DescriptionChange(Strict):
    """What a user says of a row; what is null or absent stays as it is."""

    name: Annotated[str | None, Field(description="Of 1 to 200 characters.")] = None
    notes: Annotated[str | None, Field(description="Plain text of at most 10,000 characters.")] = None
    tags: Annotated[
        list[str] | None,
        Field(description="All its tags: at most 20 of at most 40 characters, no comma, case kept but never told by."),
    ] = None
    starred: Annotated[bool | None, Field(description="Whether it is starred.")] = None
    archived: Annotated[bool | None, Field(description="Whether lists leave it out.")] = None


def describe(row: Described, change: DescriptionChange) -> None:
    """Write a change to a row of a session. Raises InvalidError at the field that is wrong."""
    if change.name is not None:
        row.name = _clean_name(change.name)
    if change.notes is not None:
        row.notes = _clean_notes(change.notes)
    if change.tags is not None:
        set_tags(row, change.tags)
    if change.starred is not None:
        row.starred = change.starred
    if change.archived is not None:
        row.archived_at = (row.archived_at or utcnow()) if change.archived else None


def set_tags(row: Tagged, tags: Sequence[str]) -> None:
    """Give a row of a session these tags. Raises InvalidError of ``tags``."""
    there = {one.tag: one for one in row.tags}
    kind = type(row).tags.property.mapper.class_
    row.tags = [there.get(tag) or kind(tag=tag) for tag in clean_tags(tags)]


def on_shelf(table: Table, shelf: Shelf, tag: str = "") -> list[ColumnElement[bool]]:
    """Return the conditions of rows on a shelf, and with this tag whatever its case."""
    shelves: dict[Shelf, list[ColumnElement[bool]]] = {
        Shelf.ACTIVE: [table.archived_at.is_(None)],
        Shelf.STARRED: [table.starred.is_(True)],
        Shelf.ARCHIVED: [table.archived_at.is_not(None)],
        Shelf.ALL: [],
    }
    conditions = list(shelves[shelf])
    if tag:
        kind = table.tags.property.mapper.class_
        conditions.append(table.tags.any(func.lower(kind.tag) == func.lower(tag)))
    return conditions


def known_tags(context: Context, *tables: type[Tagged]) -> list[str]:
    """Return the tags of all rows outside the trash, each once whatever its case, in alphabetical order."""
    with context.sessions() as session:
        found: list[str] = list(session.scalars(union(*map(_tags_of, tables or TAGGED))))
    return sorted({tag.lower(): tag for tag in sorted(found, reverse=True)}.values(), key=str.lower)


def _tags_of(table: type[Tagged]) -> Select[tuple[str]]:
    kind: Any = table.tags.property.mapper.class_
    gone = Embedding.trashed_at if table is Embedding else Experiment.removed_at
    tagged = select(kind.tag).join(table)
    return (tagged.join(Run.experiment) if table is Run else tagged).where(gone.is_(None))


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
