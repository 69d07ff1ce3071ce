"""Time limits for slow clients, and room for new connections when many others are idle."""

import asyncio
import re
import resource
import socket
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.web.security import LOGIN_BYTES

HEAD_SECONDS = 10.0
"""Time limit for the headers of a request, from its first byte or the opening of the connection."""
MAX_HEAD_BYTES = 64 * 1024
MAX_CONNECTIONS = 500
"""With more connections, a request gets 503 at once."""
MAX_WAITING = 200
"""Maximum connections without a complete request; also at most half of the files that this process may open."""
ACCEPTED_AT_ONCE = 32
"""Connections accepted per turn of the event loop: few, to read their requests before newer ones evict them."""
BACKLOG = 2048
"""Connections that the kernel holds until they are accepted."""
LOGIN = b"POST /login"
CONTENT_LENGTH = re.compile(rb"\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that closes connections which send nothing or send slowly.

    A connection waits until it has sent the headers of a request, or all of a login, which anyone may send. It has ten
    seconds for that, even if it keeps sending. If too many wait, the oldest is closed. Between two requests uvicorn's
    own timeout applies, until the first byte of the next one.
    """

    _waiting: ClassVar[dict["TimedProtocol", None]] = {}
    _timer: asyncio.TimerHandle | None = None
    _unread = b""
    """The part of a login that has arrived so far."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._time_out)
        self._start_waiting()

    def data_received(self, data: bytes) -> None:
        """Stop the timer when a request is complete; start it at the first byte of the next one."""
        self._unread += data
        if not _is_partial_login(self._unread):
            received, self._unread = self._unread, b""
            super().data_received(received)
        if self._is_answering():
            self._stop_waiting()
        elif self._timer is None and self.conn.their_state is not h11.DONE:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._time_out)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering():
            self._start_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_waiting(self) -> None:
        """Count this connection as waiting; close the one that waits longest if too many do."""
        self._waiting[self] = None
        if len(self._waiting) > min(MAX_WAITING, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2):
            oldest = next(iter(self._waiting))
            oldest._stop_waiting()
            oldest.transport.abort()  # close() would wait for a client that does not read

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.write(TIMED_OUT)
            self.transport.close()


def _is_partial_login(received: bytes) -> bool:
    """Return whether this is a login whose headers, or small body, have not arrived completely."""
    if not received.startswith(LOGIN) or len(received) > MAX_HEAD_BYTES:
        return False
    head, separator, body = received.partition(b"\r\n\r\n")
    length = CONTENT_LENGTH.search(head)
    return not separator or (length is not None and len(body) < int(length[1][:9]) <= LOGIN_BYTES)


class DashboardServer(uvicorn.Server):
    """A server that accepts a few connections at a time from a long queue of the kernel."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # asyncio accepts as many connections at once as its backlog, so lengthen only the kernel's queue.
        for listener in [listener for server in self.servers for listener in server.sockets]:
            with listener.dup() as duplicate:
                duplicate.listen(BACKLOG)


CONNECTION_SETTINGS: dict[str, Any] = {
    "http": TimedProtocol,
    "ws": "none",
    "backlog": ACCEPTED_AT_ONCE,
    "h11_max_incomplete_event_size": MAX_HEAD_BYTES,
    "limit_concurrency": MAX_CONNECTIONS,
    "proxy_headers": False,  # the application reads them, after it has seen the real peer
}
