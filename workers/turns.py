"""Whose turn it is: a worker that is free hands the engine the job that comes next, as the rows have it then.

The engine has no public call that gives another priority to what is queued in it. So the rows are the queue of what
runs a model, and the engine knows of it only what begins now and what has begun. To move a run that waits is to change
its row.
"""

import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from app.db.job_kinds import Job, Queue
from app.db.session import Sessions, one_line
from app.db.work import next_in_turn
from app.queue import JobQueue
from isoscope.core.errors import ConflictError
from workers.locks import Background, Locks

logger = logging.getLogger(__name__)

EVERY_SECONDS = 0.25
SECONDS_AFTER_AN_ERROR = 5.0


class Turns(Background):
    """Hands in what is next for this worker, again and again while the context is open."""

    def __init__(
        self, sessions: Sessions, queue: JobQueue, slot: str, locks: Locks, left: Callable[[], set[str]]
    ) -> None:
        super().__init__()
        self._sessions = sessions
        self._queue = queue
        self._slot = slot
        self._locks = locks
        self._left = left

    def work(self) -> None:
        """Hand in what is next."""
        seconds = 0.0
        while not self.stop.wait(seconds):
            seconds = EVERY_SECONDS
            try:
                hand_in_next(self._sessions, self._queue, self._slot, self._locks, self._left())
            except Exception as error:
                seconds = SECONDS_AFTER_AN_ERROR
                known = isinstance(error, SQLAlchemyError)
                logger.warning("the next job could not be handed in: %s", one_line(error), exc_info=not known)


def hand_in_next(
    sessions: Sessions, queue: JobQueue, slot: str, locks: Locks, left: Collection[str] = frozenset()
) -> None:
    """Hand in the job whose turn it is, if this worker is free for it; a busy worker only takes back what is too early.

    What this worker has ``left`` of late lets others go first, so that one broken row holds up nothing.
    What else waits in the engine is taken back, as its turn comes later: another worker handed it in and was lost, or
    it was moved since. Where a worker takes it at this very moment, it is stopped there and begins again in its turn.
    """
    line = queue.line(Queue.GPU)  # before the rows: a job that ends in between has begun here, and waits for nobody
    first = next_in_turn(sessions, Queue.GPU, line.begun.keys() | left)
    if first is None:
        return
    free = slot not in line.begun.values()
    later = line.waiting - {first.workflow_id} - set(left)
    if not later and (not free or first.workflow_id in line.waiting):
        return
    with suppress(ConflictError), locks.held("turns"):  # else another worker is at it
        if later:
            queue.cancel(*map(Job.parse, sorted(later)))
        if free:
            queue.ensure(first)
