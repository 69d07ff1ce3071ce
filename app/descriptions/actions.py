"""Actions on several rows at once: one mechanism for the lists of embeddings, experiments and runs, and for the API."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.context import Context
from app.db.models import Described
from app.descriptions.service import DescriptionChange, clean_tags
from isoscope.core.errors import InvalidError, IsoscopeError

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
