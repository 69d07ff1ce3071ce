"""Lists of selectable rows, and the actions on them, for pages and the API."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.context import Context
from app.web.activity import note_change
from app.web.dependencies import Row
from isoscope.core.errors import InvalidError, IsoscopeError

MAX_ROWS = 1000


class RowAction(NamedTuple):
    """An action on each selected row."""

    label: str
    apply: Callable[[Context, str], object]
    # What the action deletes permanently. If it is not empty, the page asks for confirmation.
    warning: str = ""


class RefusedRow(Row):
    """A row on which an action failed, and why."""

    id: str
    name: str
    reason: str


@dataclass(frozen=True)
class RowList:
    """A list of embeddings, experiments or runs: its page, its checkboxes and its actions."""

    path: str
    title: str
    section: str
    field: str
    actions: Mapping[str, RowAction]
    get_name: Callable[[Context, str], str]
    # Returns the address of the list with a query string. None: ``path`` with the query string.
    get_address: Callable[[str], str] | None = None

    def back_url(self, query: str) -> str:
        """Return the address of the list from which a user came, with its query string."""
        if self.get_address is not None:
            return self.get_address(query)
        return f"{self.path}?{query}" if query else self.path

    def apply_action(self, context: Context, slug: str, ids: Sequence[str]) -> list[RefusedRow]:
        """Apply an action to rows and return those that refused it. Raise InvalidError for an unknown action."""
        if (action := self.actions.get(slug)) is None:
            raise InvalidError(f"No action named {slug!r}. Actions are: {', '.join(self.actions)}.", "action")
        if not ids:
            raise InvalidError("No row is selected. Select at least one.", self.field)
        if len(ids) > MAX_ROWS:
            raise InvalidError(f"Select at most {MAX_ROWS:,} rows at a time. You selected {len(ids):,}.", self.field)
        refused_rows = []
        for row_id in ids:
            name = self.name_or_id(context, row_id)  # before the action, which may delete the row
            try:
                action.apply(context, row_id)
            except IsoscopeError as error:
                refused_rows.append(RefusedRow(id=row_id, name=name, reason=error.message))
            else:
                note_change(slug, f"{self.path}/{row_id}", name)
        return refused_rows

    def name_or_id(self, context: Context, row_id: str) -> str:
        try:
            return self.get_name(context, row_id)
        except IsoscopeError:
            return row_id
