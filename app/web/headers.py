"""Headers of every response, HEAD wherever there is GET, and time limits for slow clients."""

import asyncio
from typing import Any

import h11
from anyio import CancelScope
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class SafeHeaders:
    """ASGI wrapper that adds the safe headers. It must be the outermost."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class HeadAsGet:
    """ASGI wrapper that answers HEAD like GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        body_sent = False

        async def send_without_body(message: Message) -> None:
            nonlocal body_sent
            if message["type"] != "http.response.body":
                await send(message)
                return
            if not body_sent:
                body_sent = True
                await send({"type": "http.response.body", "body": b""})
            if message.get("more_body"):
                body_scope.cancel()

        with CancelScope() as body_scope:
            await self._app({**scope, "method": "GET"}, receive, send_without_body)


HEAD_SECONDS = 10.0
"""Time limit for the headers of a request, from its first byte or the opening of the connection."""
MAX_HEAD_BYTES = 64 * 1024
MAX_CONNECTIONS = 500
"""With more connections, a request gets 503 at once."""
TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose headers have not arrived in time, however steadily they drip.

    Between two requests uvicorn's own timeout holds, which ends with the first byte of the next one.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._time_out)

    def data_received(self, data: bytes) -> None:
        """Stop the timer when headers are complete; start it with the next request's first byte."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._time_out)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.write(TIMED_OUT)
            self.transport.close()


CONNECTION_SETTINGS: dict[str, Any] = {
    "http": TimedProtocol,
    "h11_max_incomplete_event_size": MAX_HEAD_BYTES,
    "limit_concurrency": MAX_CONNECTIONS,
    "proxy_headers": False,  # the application reads them, after it has seen the real peer
}
