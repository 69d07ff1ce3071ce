"""Whether the database answers, asked beside the pool that requests share and never for longer than a moment."""

import asyncio

from anyio import CapacityLimiter, to_thread
from sqlalchemy.pool import NullPool

from app.context import Context
from app.db.session import create_sessions
from app.services.workers import count_alive
from isoscope.core.errors import UnavailableError

ANSWER_SECONDS = 1.5


class Vitals:
    """Looks at the database on a connection and a thread of its own, once at a time however many ask."""

    def __init__(self, context: Context) -> None:
        self._sessions = create_sessions(context.settings.database, poolclass=NullPool)
        self._limiter = CapacityLimiter(1)
        self._looking: asyncio.Task[int] | None = None

    async def workers_alive(self) -> int:
        """Return how many workers are alive.

        Raises:
            UnavailableError: the database does not answer in time.

        """
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(to_thread.run_sync(count_alive, self._sessions, limiter=self._limiter))
        try:
            return await asyncio.wait_for(asyncio.shield(self._looking), ANSWER_SECONDS)
        except TimeoutError:
            raise UnavailableError(f"The database does not answer within {ANSWER_SECONDS} seconds.") from None
