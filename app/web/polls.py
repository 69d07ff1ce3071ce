"""Parts of pages that htmx polls, rendered at most once a second for all visitors."""

import asyncio

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.headers import SAFE_METHODS, HttpMiddleware, is_poll

SHARED_SECONDS = 1.0


class SharedPolls(HttpMiddleware):
    """Answers polls of the same URL by visitors with the same rights with one response, compressed once, for a second.

    It must be inside the gate, which checks access. A change made on a page discards all shared responses, so that the
    next poll shows it.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self._gzip_app = GZipMiddleware(app)
        self._responses: dict[tuple[object, ...], asyncio.Task[list[Message]]] = {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_after_change(message: Message) -> None:
            self._responses.clear()  # they may have been read before the change
            await send(message)

        if is_poll(scope):
            headers, visitor = Headers(scope=scope), scope["visit"].visitor
            read_headers = [headers.get(name) for name in ("accept", "accept-encoding", "host", "hx-current-url")]
            rights = (visitor.scope, visitor.cookie_hash is not None)  # base.html depends on them
            key = (scope["path"], scope["query_string"], *rights, *read_headers)
            if key not in self._responses:
                self._responses[key] = asyncio.create_task(self._collect_response(scope, receive))
                asyncio.get_running_loop().call_later(SHARED_SECONDS, self._responses.pop, key, None)
            for message in await asyncio.shield(self._responses[key]):  # another request may be waiting for the task
                await send({**message, "headers": [*message["headers"]]} if "headers" in message else message)
        # Changes over the API discard nothing: scripts make many per second, and no page must show them immediately.
        elif scope["method"] in SAFE_METHODS or scope["path"].startswith("/api/"):
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send_after_change)

    async def _collect_response(self, scope: Scope, receive: Receive) -> list[Message]:
        messages: list[Message] = []

        async def append(message: Message) -> None:
            messages.append(message)

        await self._gzip_app(scope, receive, append)
        return messages
