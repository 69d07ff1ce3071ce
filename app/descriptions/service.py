"""Name, notes, tags, star and archive, checked and written for embeddings and experiments alike; tags for runs too.

And actions on several rows at once: one mechanism for the lists of embeddings, experiments and runs, and for the API.
"""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from fastapi import Query
from pydantic import Field
from sqlalchemy import ColumnElement, Select, func, select, union

from app.context import Context
from app.core.names import MAX_NAME_CHARACTERS
from app.db.models import MAX_TAG_CHARACTERS, MAX_TAGS, Described, Embedding, Experiment, Run, Tagged
from app.db.types import utcnow
from isoscope.core.errors import InvalidError, IsoscopeError
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


Act = Callable[[Context, str], object]

TAG = "tag"
"""The action that needs words."""
MAX_ROWS = 1000


@dataclass(frozen=True)
class Action:
    """Something done to each of the selected rows."""

    label: str
    act: Act
    warning: str = ""
    """What is lost for good; the page asks before it is done."""


class Refusal(NamedTuple):
    """A row to which an action could not be done, and why."""

    id: str
    name: str
    reason: str


@dataclass(frozen=True)
class Noun(ABC):
    """What pages and API need to know of a table to act on its rows."""

    path: str
    """Above the page of a row."""
    title: str
    """Of the list."""
    section: str
    field: str
    """Name of the checkboxes in the list."""
    actions: Mapping[str, Action]
    """Those that only this table has."""

    @abstractmethod
    def name_of(self, context: Context, row_id: str) -> str:
        """Return what a row is called."""

    @abstractmethod
    def add_tags(self, context: Context, row_id: str, tags: Sequence[str]) -> object:
        """Add to the tags of a row."""

    def back(self, query: str) -> str:
        """Return the address of the list with this query string."""
        return f"{self.path}?{query}" if query else self.path

    def shelving(self) -> Mapping[str, Action]:
        """Return what stars and archives rows, where they can be."""
        return {}

    @property
    def all_actions(self) -> dict[str, Action]:
        """Every action by its name in the form, destructive ones last; the page asks for the words of ``tag``."""
        own = self.actions.items()
        return {
            **{slug: action for slug, action in own if not action.warning},
            TAG: Action("Tag", lambda _context, _row_id: None),
            **self.shelving(),
            **{slug: action for slug, action in own if action.warning},
        }

    def act(self, context: Context, action: str, ids: Sequence[str], tags: Sequence[str] = ()) -> list[Refusal]:
        """Do an action to each row, and return the rows to which it could not be done.

        Raises:
            InvalidError: there is no such action, no row, too many, or the tags cannot be kept.

        """
        if (chosen := self.all_actions.get(action)) is None:
            raise InvalidError(f"No action named {action!r}. Actions are: {', '.join(self.all_actions)}.", "action")
        if not ids:
            raise InvalidError("No row is selected. Select at least one.", self.field)
        if len(ids) > MAX_ROWS:
            raise InvalidError(f"Select at most {MAX_ROWS:,} rows at a time. You selected {len(ids):,}.", self.field)
        cleaned = clean_tags(tags)
        if action == TAG and not cleaned:
            raise InvalidError("Type at least one tag.", "tags")
        refusals = []
        for row_id in ids:
            try:
                if action == TAG:
                    self.add_tags(context, row_id, cleaned)
                else:
                    chosen.act(context, row_id)
            except IsoscopeError as error:
                refusals.append(Refusal(row_id, self.known_name(context, row_id), error.message))
        return refusals

    def known_name(self, context: Context, row_id: str) -> str:
        """Return the name of a row, or its id where it is gone."""
        try:
            return self.name_of(context, row_id)
        except IsoscopeError:
            return row_id


@dataclass(frozen=True)
class DescribedNoun(Noun):
    """A table whose rows have a name, notes, tags, a star and an archive."""

    get: Callable[[Context, str], Described]
    describe: Callable[[Context, str, DescriptionChange], Described]

    def name_of(self, context: Context, row_id: str) -> str:
        """Return the name that a user gave it."""
        return self.get(context, row_id).name

    def add_tags(self, context: Context, row_id: str, tags: Sequence[str]) -> object:
        """Add to the tags of a row."""
        there = self.get(context, row_id).words
        return self.describe(context, row_id, DescriptionChange(tags=[*there, *tags]))

    def shelving(self) -> Mapping[str, Action]:
        """Return what stars and archives a row."""
        changes = {
            "star": ("Star", DescriptionChange(starred=True)),
            "unstar": ("Unstar", DescriptionChange(starred=False)),
            "archive": ("Archive", DescriptionChange(archived=True)),
            "unarchive": ("Unarchive", DescriptionChange(archived=False)),
        }
        return {slug: Action(label, self._describing(change)) for slug, (label, change) in changes.items()}

    def _describing(self, change: DescriptionChange) -> Act:
        return lambda context, row_id: self.describe(context, row_id, change)
