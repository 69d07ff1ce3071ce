"""Pages that htmx requests again and again, rendered once a second for all who watch them."""

import asyncio

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.headers import SAFE_METHODS, HttpMiddleware, is_poll

SHARED_SECONDS = 1.0


class SharedPolls(HttpMiddleware):
    """Gives one answer to all requests of htmx for one address with one scope within a second.

    It belongs inside the gate, which decides who gets an answer. Compression is shared too. A change made on any page
    ends all sharing, so that the next request shows it.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self._compressed = GZipMiddleware(app)
        self._answers: dict[tuple[object, ...], asyncio.Task[list[Message]]] = {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_after_change(message: Message) -> None:
            self._answers.clear()  # what was read before this moment may lack the change
            await send(message)

        if is_poll(scope):
            headers, visitor = Headers(scope=scope), scope["visit"].visitor
            vary = [headers.get(name) for name in ("accept", "accept-encoding", "host", "hx-current-url")]
            rights = (visitor.scope, visitor.cookie_hash is not None)  # what base.html also depends on
            key = (scope["path"], scope["query_string"], *rights, *vary)
            if key not in self._answers:
                self._answers[key] = asyncio.create_task(self._collect(scope, receive))
                asyncio.get_running_loop().call_later(SHARED_SECONDS, self._answers.pop, key, None)
            for message in await asyncio.shield(self._answers[key]):  # one of those who wait may be canceled
                await send({**message, "headers": [*message["headers"]]} if "headers" in message else message)
        # Scripts post to the API many times a second, and nobody waits for the next page because of it.
        elif scope["method"] in SAFE_METHODS or scope["path"].startswith("/api/"):
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send_after_change)

    async def _collect(self, scope: Scope, receive: Receive) -> list[Message]:
        messages: list[Message] = []

        async def append(message: Message) -> None:
            messages.append(message)

        await self._compressed(scope, receive, append)
        return messages
