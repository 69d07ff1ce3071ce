"""Headers of every response, and HEAD for every route with GET."""

from abc import ABC, abstractmethod

from anyio import CancelScope
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # A browser may store a page but must revalidate it, because its next user may have no token.
    "Cache-Control": "private, no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def is_poll(scope: Scope) -> bool:
    """Return whether htmx requests a part of a page, which it does repeatedly."""
    return scope["method"] == "GET" and "hx-request" in Headers(scope=scope)


class HttpMiddleware(ABC):
    """ASGI middleware for HTTP requests; other scopes, such as lifespan, pass through."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.handle if scope["type"] == "http" else self._app)(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        pass


class SafeHeaders(HttpMiddleware):
    """Adds ``HEADERS`` to responses. A response sent before the whole request was read closes the connection."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_headers = Headers(scope=scope)
        body_is_coming = "transfer-encoding" in request_headers or request_headers.get("content-length", "0") != "0"

        async def receive_body() -> Message:
            nonlocal body_is_coming
            message = await receive()
            body_is_coming = message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if body_is_coming:
                    headers["Connection"] = "close"
            await send(message)

        await self._app(scope, receive_body, send_with_headers)


class HeadAsGet(HttpMiddleware):
    """Answers HEAD like GET, without the body."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "HEAD":
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
