"""HEAD wherever there is GET, for monitors and proxies that ask whether something is there."""

from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """An application that answers HEAD as the one it wraps answers GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; where a body comes in parts, stop at the first."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        ended = False

        async def sending(message: Message) -> None:
            nonlocal ended
            if message["type"] != "http.response.body":
                await send(message)
                return
            if not ended:
                ended = True
                await send({"type": "http.response.body", "body": b""})
            if message.get("more_body"):
                rest.cancel()

        with CancelScope() as rest:
            await self._app({**scope, "method": "GET"}, receive, sending)
