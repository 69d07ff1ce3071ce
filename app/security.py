"""What every request must satisfy before a route sees it, and what every answer carries.

A dashboard on loopback can be reached by any page open in the same browser: through DNS rebinding (so the Host
is checked) and through forms and scripts that post to it (so the origin of every change is checked). Off
loopback a secret is needed too.
"""

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.problems import Problem, problem_response
from app.settings import Settings, is_loopback

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
OPEN_PATHS = ("/static/", "/login", "/api/health")
SESSION_KEY = "signed_in"
# The form around the file: boundaries, headers, the other fields.
FORM_OVERHEAD_BYTES = 1_000_000

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

Next = Callable[[Request], Awaitable[Response]]


class Gate:
    """HTTP middleware that refuses what must not reach a route."""

    def __init__(self, settings: Settings) -> None:
        self._token = settings.access_token.get_secret_value() if settings.access_token else None
        self._hosts = set(settings.allowed_hosts)
        if not is_loopback(settings.host):
            self._hosts.add(settings.host)

    async def __call__(self, request: Request, call_next: Next) -> Response:
        """Let the request pass, or say why not."""
        response = self._refuse(request) or await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _refuse(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not self._known_host(host):
            return _problem(
                request, 421, f"This server does not answer to the name {host!r}. Open it by the address it "
                "printed at start, or add the name to ISOSCOPE_ALLOWED_HOSTS.",
            )  # fmt: skip
        if request.method not in SAFE_METHODS and not _same_origin(request, host):
            return _problem(request, 403, "This change was asked for by a page of another site, and is refused.")
        if self._token is not None and not self._signed_in(request):
            if request.url.path.startswith("/api/"):
                return _problem(request, 401, "Expected the header 'Authorization: Bearer <access token>'.")
            return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)
        return None

    def _known_host(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        # With a token, a rebound name gains nothing: its page has no cookie of ours.
        return is_loopback(name) or name in self._hosts or self._token is not None

    def _signed_in(self, request: Request) -> bool:
        if request.url.path.startswith(OPEN_PATHS) or request.session.get(SESSION_KEY):
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.accepts(given)

    def accepts(self, given: str) -> bool:
        """Whether this is the access token."""
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _problem(request: Request, status: int, detail: str) -> Response:
    return problem_response(request, status, Problem(detail=detail))


def _same_origin(request: Request, host: str) -> bool:
    """Whether a change comes from our own pages, or from no browser at all."""
    if (site := request.headers.get("sec-fetch-site")) is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == host


class BodyLimit:
    """ASGI middleware that stops reading a body at the largest size any route accepts."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdigit() and int(declared) > self._max_bytes + FORM_OVERHEAD_BYTES:
            await self._too_large(scope, receive, send)
            return
        received, started, exceeded = 0, False, False

        async def counting() -> Message:
            nonlocal received, exceeded
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes + FORM_OVERHEAD_BYTES:
                exceeded = True
                return {"type": "http.disconnect"}
            return message

        async def sending(message: Message) -> None:
            nonlocal started
            if exceeded and not started:
                return
            started = True
            await send(message)

        try:
            await self._app(scope, counting, sending)
        finally:
            if exceeded and not started:
                await self._too_large(scope, receive, send)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = (
            f"Expected at most {self._max_bytes:,} bytes, which is ISOSCOPE_MAX_UPLOAD_BYTES here, got more. "
            "Upload a part of the rows, or raise the setting."
        )
        response = problem_response(Request(scope), 413, Problem(detail=detail, field="file"))
        response.headers["Connection"] = "close"
        await response(scope, receive, send)
