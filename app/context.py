"""The context that services share (database, files, queue), deletion on a full disk, and paging."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from math import ceil
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Select

from app.core.settings import Settings
from app.core.space import SpareFile, require_room
from app.db.session import Sessions, create_sessions
from app.queue import JobQueue
from app.storage import Storage, open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import NotFoundError

Item = TypeVar("Item")


@dataclass(frozen=True)
class Context:
    """The settings, database, files and job queue of the process."""

    settings: Settings
    sessions: Sessions
    storage: Storage
    queue: JobQueue

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.sessions, self.storage)

    @property
    def spare_file(self) -> SpareFile:
        return SpareFile.from_settings(self.settings)

    def require_room(self, stored_bytes: int = 0) -> None:
        """Raise FullDiskError if storing these bytes would leave a disk with less free space than the reserve."""
        require_room(self.settings, stored_bytes=stored_bytes)
        self.spare_file.create_if_missing()  # a deletion on a full disk may have removed it

    def scalar(self, query: Select[Item]) -> Item | None:
        with self.sessions() as session:
            return session.scalar(query)

    def scalars(self, query: Select[Item]) -> list[Item]:
        with self.sessions() as session:
            return list(session.scalars(query))

    def get(self, table: type[Item], key: str) -> Item | None:
        with self.sessions() as session:
            return session.get(table, key)

    def close(self) -> None:
        self.queue.close()
        self.sessions.kw["bind"].dispose()


def create_context(settings: Settings) -> Context:
    return Context(
        settings=settings,
        sessions=create_sessions(settings.database),
        storage=open_storage(settings),
        queue=JobQueue(settings.queue),
    )


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def makes_room(
    service: Callable[Concatenate[Context, Arguments], Result],
) -> Callable[Concatenate[Context, Arguments], Result]:
    """Let a service write on a full disk by removing the spare file first."""

    @wraps(service)
    def with_room(context: Context, /, *args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        with context.spare_file.make_room():
            return service(context, *args, **keywords)

    return with_room


def not_found(noun: str, row_id: str, field: str | None = None) -> NotFoundError:
    return NotFoundError(f"There is no {noun} {row_id!r}; it may have been deleted.", field)


PAGE_ROWS = 50
MAX_CHOICES = 200
"""Maximum rows offered in a selection list; search finds the others."""
MAX_PAGE = 10**6
"""Larger page numbers would overflow the offsets of the databases."""


def offset_of(page: int) -> int:
    """Return the number of rows before a page. Pages are numbered from 1."""
    return (min(page, MAX_PAGE) - 1) * PAGE_ROWS


def aria_sort(order: str, column: str) -> str:
    """Return the ``aria-sort`` value of a column. ``order`` is the sorted column, with a minus if descending."""
    if order.removeprefix("-") != column:
        return "none"
    return "descending" if order.startswith("-") else "ascending"


def next_sort(column: str, current: str, *, descending_first: bool) -> str:
    """Return the sort order after a click on a column head whose ``aria-sort`` is ``current``."""
    is_descending = descending_first if current == "none" else current == "ascending"
    return f"-{column}" if is_descending else column


def count_pages(total: int) -> int:
    return max(ceil(total / PAGE_ROWS), 1)


class RowsOfTotal(Protocol):
    """Rows of a list, and the number of rows on all pages."""

    @property
    def total(self) -> int: ...


PageRows = TypeVar("PageRows", bound=RowsOfTotal)


def read_page(read_rows: Callable[[int], PageRows], page: int) -> tuple[PageRows, int, int]:
    """Return the rows, number and count of a page, or of the last one if there are fewer.

    ``read_rows`` takes the number of rows before the page.
    """
    rows = read_rows(offset_of(page))
    pages = count_pages(rows.total)
    return (rows, page, pages) if page <= pages else read_page(read_rows, pages)
