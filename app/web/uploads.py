"""Parse a few uploads at a time, in their own threads."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from threading import Event
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request, UploadFile

from app.core.process import machine_cores, machine_memory
from app.core.settings import Settings
from app.sandbox import ABANDONED
from app.storage import Incoming
from isoscope.core.errors import AbandonedError, BusyError

T = TypeVar("T")
P = ParamSpec("P")

WAITING_PER_SLOT = 4
RETRY_SECONDS = 5


class Parsers:
    """Slots in which uploads are parsed, with a short queue."""

    def __init__(self, slots: int) -> None:
        self._limiter = CapacityLimiter(slots)
        self._max_requests = slots * (1 + WAITING_PER_SLOT)
        self._n_requests = 0

    async def run(self, request: Request, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread once a slot is free, and return its result.

        Its sandboxes are ended when the client closes the connection. Raises BusyError if too many requests wait,
        AbandonedError if the client is gone.
        """
        if self._n_requests >= self._max_requests:
            raise BusyError(
                f"Too many uploads at once. Try again in {RETRY_SECONDS} seconds.", retry_seconds=RETRY_SECONDS
            )
        client_gone, started = Event(), Event()

        def begin() -> T:
            started.set()
            return work()

        self._n_requests += 1
        # Set while the task is created, which copies the context; anyio copies it into the thread.
        token = ABANDONED.set(client_gone)
        work_task = asyncio.create_task(to_thread.run_sync(begin, limiter=self._limiter))
        ABANDONED.reset(token)
        watch_task = asyncio.create_task(_wait_for_disconnect(request))
        try:
            await asyncio.wait({work_task, watch_task}, return_when=asyncio.FIRST_COMPLETED)
            if work_task.done():
                return work_task.result()
            watch_task.result()  # raises the error if watching failed
            raise AbandonedError("The client closed the connection.")
        finally:
            client_gone.set()
            watch_task.cancel()
            if not started.is_set():  # started work ends with its sandbox
                work_task.cancel()
            await asyncio.gather(work_task, watch_task, return_exceptions=True)
            self._n_requests -= 1


def parser_slots(settings: Settings) -> int:
    """Return how many uploads may be parsed at once: one per core, in at most half of the memory together."""
    if settings.parse_at_once is not None:
        return settings.parse_at_once
    memory = machine_memory()
    slots_in_memory = machine_cores() if memory is None else memory // 2 // settings.parse_memory_bytes
    return max(1, min(machine_cores(), slots_in_memory))


def chosen_file(upload: UploadFile | str | None) -> Incoming | None:
    """Return a form's file; None if none was chosen, for which browsers send a file without a name."""
    return None if upload is None or isinstance(upload, str) or not upload.filename else to_incoming(upload)


def to_incoming(upload: UploadFile) -> Incoming:
    return Incoming(upload.file, upload.filename or "")


def in_parser_slot(handler: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Run a route's handler in a parser slot. Its ``request`` argument shows whether the client is still connected."""

    @wraps(handler)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        request: Any = kwargs["request"]
        parsers: Parsers = request.app.state.parsers
        return await parsers.run(request, partial(handler, *args, **kwargs))

    return run


async def _wait_for_disconnect(request: Request) -> None:
    # is_disconnected() does not wait, and therefore never sees a disconnect through the middleware.
    while (await request.receive())["type"] != "http.disconnect":
        pass
