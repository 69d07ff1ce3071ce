"""Jobs that are taken in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.context import Context
from app.db.work import FileLocks
from app.queue import Execute, working
from workers.turns import Turns


@contextmanager
def taking(context: Context, slot: str, execute: Execute) -> Iterator[None]:
    """Take jobs as a worker of that slot does, those that wait in turn too."""
    locks = FileLocks(context.settings.root / "locks")
    with (
        working(context.settings.queue, slot, execute),
        Turns(context.sessions, context.queue, slot, locks, set),
    ):
        yield
