"""Checks of every request before its route, the session cookie, and the login page.

A dashboard on loopback can be reached by any page open in the same browser: through DNS rebinding (so the Host
is checked) and through forms and scripts that post to it (so the origin of every change is checked). Off
loopback a secret is needed too.
"""

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.settings import Settings, is_loopback
from app.core.space import require_room
from app.web.error_responses import Problem, problem_response
from app.web.templating import templates
from isoscope.core.errors import FullDiskError, InvalidError

SESSION_SECONDS = 14 * 24 * 3600
SECRET_BYTES = 32
KEY_FILE = "session.key"


class SignedSessions:
    """ASGI middleware for the session cookie."""

    def __init__(self, app: ASGIApp, settings: Settings, token: str) -> None:
        # Derived from the token, so that a new token ends every session.
        secret = hmac.new(session_secret(settings.root), token.encode(), hashlib.sha256).hexdigest()
        self._plain, self._secure = (
            SessionMiddleware(app, secret, max_age=SESSION_SECONDS, same_site="strict", https_only=https_only)
            for https_only in (False, True)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Behind a trusted proxy, uvicorn has put the browser's scheme there.
        sessions = self._secure if scope.get("scheme") == "https" else self._plain
        await sessions(scope, receive, send)


def session_secret(folder: Path) -> bytes:
    """Return the data folder's random secret; the first call creates it with mode 0600."""
    path = folder / KEY_FILE
    if not path.exists():
        temporary_path = folder / f"{KEY_FILE}.{secrets.token_hex(8)}"
        descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
            os.link(temporary_path, path)  # fails if another process was first
        except FileExistsError:
            pass
        finally:
            temporary_path.unlink()
    return path.read_bytes()


FORBIDDEN_IN_HOST = re.compile(r"[/\\?#@\s]")
"""Characters that no host name and port have, and that would turn them into another URL."""
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
OPEN_PATHS = ("/static/", "/login", "/api/health")
SESSION_KEY = "signed_in"
# Delay after a wrong access token, so that guessing takes years, and how many requests may wait at once.
DELAY_SECONDS = 0.5
MAX_DELAYED = 20
# The form around the file: boundaries, headers, the other fields.
FORM_OVERHEAD_BYTES = 1_000_000
TOO_LARGE = (
    "Expected at most {:,} bytes in this request, got more. Upload a part of the rows, or have "
    "ISOSCOPE_MAX_UPLOAD_BYTES or ISOSCOPE_MAX_DATASET_BYTES raised by whoever runs this server."
)

CallNext = Callable[[Request], Awaitable[Response]]


class Gate:
    """HTTP middleware that refuses forbidden requests."""

    def __init__(self, settings: Settings) -> None:
        self._token = settings.access_token.get_secret_value() if settings.access_token else None
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        self._n_delayed = 0
        if not is_loopback(settings.host):
            self._hosts.add(settings.host)

    async def __call__(self, request: Request, call_next: CallNext) -> Response:
        if (refusal := self._refuse(request)) is None:
            return await call_next(request)
        if refusal.status_code == HTTPStatus.UNAUTHORIZED and "authorization" in request.headers:
            return await self.delay_refusal(request, refusal)
        return refusal

    async def delay_refusal(self, request: Request, refusal: Response) -> Response:
        """Delay the answer to a wrong token; refuse at once when too many wait."""
        if self._n_delayed >= MAX_DELAYED:
            response = _problem_response(request, 429, "Too many wrong access tokens. Try again in a second.")
            response.headers["Retry-After"] = "1"
            return response
        self._n_delayed += 1
        try:
            await asyncio.sleep(DELAY_SECONDS)
        finally:
            self._n_delayed -= 1
        return refusal

    def _refuse(self, request: Request) -> Response | None:
        # PostgreSQL keeps no NUL in a text, so it must not get as far as a query.
        if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
            return _problem_response(
                request, 422, "This address contains a NUL character (%00), which no name or id has."
            )
        host = request.headers.get("host", "")
        if not self._accepts_host(host):
            return _problem_response(
                request, 421, f"This server does not answer to the name {host!r}. Open it by the address it "
                "printed at start, or add the name to ISOSCOPE_ALLOWED_HOSTS.",
            )  # fmt: skip
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        # From our own pages, or from no browser.
        is_same_origin = (
            origin is None or origin.partition("://")[2] == host if site is None else site in ("same-origin", "none")
        )
        if request.method not in SAFE_METHODS and not is_same_origin:
            return _problem_response(request, 403, "This change came from a page of another site and was refused.")
        # Not request.url, whose path may come from a forged Host.
        path = request.scope["path"]
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self._token is not None and not (
            path.startswith(OPEN_PATHS)
            or request.session.get(SESSION_KEY)
            or (scheme.lower() == "bearer" and self.accepts_token(token))
        ):
            if path.startswith("/api/"):
                return _problem_response(request, 401, "Expected the header 'Authorization: Bearer <access token>'.")
            target = f"{path}?{request.url.query}" if request.method == "GET" else "/"
            return RedirectResponse(f"/login?next={quote(target.removesuffix('?'))}", 303)
        return None

    def _accepts_host(self, host: str) -> bool:
        if FORBIDDEN_IN_HOST.search(host):
            return False
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        # With a token, a rebound name gains nothing: its page has no cookie of ours.
        return is_loopback(name) or name in self._hosts or self._token is not None

    def accepts_token(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())


def _problem_response(request: Request, status: int, detail: str) -> Response:
    return problem_response(request, status, Problem(detail=detail))


class BodyLimit:
    """ASGI middleware that limits body sizes by route."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        # By pattern of the path. All files of a data set come in one body.
        self._caps = {
            re.compile("embeddings"): settings.max_upload_bytes,
            re.compile("embeddings/[^/]+/tasks"): settings.max_dataset_bytes,
            re.compile("datasets"): 3 * settings.max_dataset_bytes,
            re.compile("encodings"): settings.max_dataset_bytes,
            re.compile("experiments/import"): settings.max_upload_bytes,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix("/api").strip("/")
        max_bytes = next((max_bytes for route, max_bytes in self._caps.items() if route.fullmatch(path)), 0)
        cap = max_bytes + FORM_OVERHEAD_BYTES
        length = Headers(scope=scope).get("content-length", "")
        declared = int(length) if length.isdigit() else 0
        if declared > cap:
            await _send_refusal(Problem(detail=TOO_LARGE.format(cap), field="file"), 413, scope, receive, send)
            return
        if max_bytes and scope["method"] == "POST":
            try:
                require_room(self._settings, upload_bytes=declared)
            except FullDiskError as error:
                await _send_refusal(Problem(detail=error.message, field="file"), 507, scope, receive, send)
                return
        received_bytes, response_started, exceeded = 0, False, False

        async def receive_counted() -> Message:
            nonlocal received_bytes, exceeded
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > cap:
                exceeded = True
                return {"type": "http.disconnect"}
            return message

        async def send_unless_exceeded(message: Message) -> None:
            nonlocal response_started
            if exceeded and not response_started:
                return
            response_started = True
            await send(message)

        try:
            await self._app(scope, receive_counted, send_unless_exceeded)
        finally:
            if exceeded and not response_started:
                await _send_refusal(Problem(detail=TOO_LARGE.format(cap), field="file"), 413, scope, receive, send)


async def _send_refusal(problem: Problem, status: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer without reading the body, and close the connection."""
    response = problem_response(Request(scope), status, problem)
    response.headers["Connection"] = "close"
    await response(scope, receive, send)


router = APIRouter(include_in_schema=False)


@router.get("/login")
def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the URL
    return templates.TemplateResponse(request, "web/login.html", {"next": next, "problem": None})


@router.post("/login")
async def create_login(
    request: Request,
    token: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002
) -> Response:
    gate: Gate = request.app.state.gate
    if not gate.accepts_token(token):
        problem = InvalidError(
            "That is not the access token. It is the value of ISOSCOPE_ACCESS_TOKEN on the server.", "token"
        )
        values = {"next": next, "problem": problem}
        response = templates.TemplateResponse(request, "web/login.html", values, status_code=401)
        return await gate.delay_refusal(request, response)
    request.session[SESSION_KEY] = True
    return RedirectResponse(next if (next.startswith("/") and not next.startswith(("//", "/\\"))) else "/", 303)


@router.post("/logout")
def delete_login(request: Request) -> Response:
    if "session" in request.scope:  # there is no session without an access token
        request.session.clear()
    return RedirectResponse("/login", 303)
