"""Checks of every request before its route, limits of body sizes, and the login page.

On loopback a dashboard is exposed to DNS rebinding (so Host is checked), to posts from other pages open in the same
browser (so the origin of every change is checked), and to other users of the machine (so they need a token). Off
loopback everybody needs a token.
"""

import asyncio
import hmac
import os
import re
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote, urlsplit

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import Context
from app.core.peer import peer_uid
from app.core.settings import Settings, is_loopback
from app.core.space import require_room
from app.db.models import AccessScope, Activity
from app.db.session import error_line
from app.web import activity, tokens
from app.web.activity import Visit, access_logger
from app.web.dependencies import ContextDep
from app.web.error_responses import problem_response
from app.web.headers import SAFE_METHODS, HttpMiddleware
from app.web.templating import templates
from app.web.tokens import Visitor
from isoscope.core.errors import FullDiskError, InvalidError

FORBIDDEN_IN_HOST = re.compile(r"[/\\?#@\s]")
"""Characters that no host name and port have, and that would turn them into another URL."""
OPEN_PATHS = ("/static/", "/login", "/api/health")
ADMIN_PATHS = ("/access", "/tokens", "/api/tokens", "/api/activity")
SESSION_COOKIE = "session"
# Delay between answers to wrong tokens from one network, so that guessing takes years; maximum number of delayed ones.
DELAY_SECONDS = 0.5
MAX_DELAYED = 5
MAX_LOOKUPS = 4
MISSING_CREDENTIALS = "Expected the header 'Authorization: Bearer <access token>'."
UNKNOWN_CREDENTIALS = "This access token is unknown, revoked or expired. Ask for a new one."
OTHER_USER = (
    "This dashboard runs without an access token, for the user who started it, and another user of this machine sent "
    "this request. Sign in at /login with a token that its user made on its Access page, or ask them to set "
    "ISOSCOPE_ACCESS_TOKEN."
)
# Maximum size of a form without its file: boundaries, headers, other fields.
FORM_OVERHEAD_BYTES = 1_000_000
# Maximum body of a login, which anyone may send.
LOGIN_BYTES = 4096
TOO_LARGE = (
    "Expected at most {:,} bytes in this request, got more. Upload a part of the rows, or have "
    "ISOSCOPE_MAX_UPLOAD_BYTES or ISOSCOPE_MAX_DATASET_BYTES raised by whoever runs this server."
)


class Gate(HttpMiddleware):
    """Refuses forbidden requests, identifies visitors, and records changes."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(app)
        self.owner_token = settings.access_token.get_secret_value() if settings.access_token else None
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        if not is_loopback(settings.host):
            self._hosts.add(settings.host)
        self._n_delayed_by_network: Counter[str] = Counter()
        # A locked database can block the usual threads, so lookups and the recording of changes have their own.
        self._reader_threads, self.writer_thread = CapacityLimiter(MAX_LOOKUPS), CapacityLimiter(1)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, visit = Request(scope), scope["visit"]
        scope["gate"] = self
        refusal = self._refuse(request) or await self._admit(request, visit)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        activity.current_visit.set(visit)
        await (self._app if scope["method"] in SAFE_METHODS else self._run_noting_change)(scope, receive, send)
        if visit.changes or (visit.visitor.must_record_use and self.writer_thread.available_tokens):
            try:
                await to_thread.run_sync(
                    activity.record_visit, request.app.state.context, visit, limiter=self.writer_thread
                )
            except SQLAlchemyError as error:
                access_logger.error("what %s did could not be recorded: %s", visit.visitor.name, error_line(error))

    async def _run_noting_change(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a request and note its change. Read the row's name first, because the request may delete the row."""
        visit, subject, name, body = scope["visit"], activity.find_subject(scope["path"]), "", b""
        if (query := activity.select_name(subject)) is not None:
            with suppress(SQLAlchemyError):  # the route reports it
                context: Context = scope["app"].state.context
                stored_name = await to_thread.run_sync(context.scalar, query, limiter=self._reader_threads)
                name = stored_name or ""

        async def send_noting(message: Message) -> None:
            nonlocal body
            body = body or message.get("body", b"")[: activity.SEARCHED_BYTES]
            await send(message)

        await self._app(scope, receive, send_noting)
        route = scope.get("route")
        if route is not None and visit.status < HTTPStatus.BAD_REQUEST and route.name not in activity.UNRECORDED_ROUTES:
            subject = subject or activity.find_created_subject(scope["path"], visit.location, body)
            visit.changes.append(Activity(action=route.name.replace("_", " "), subject=subject, name=name))

    async def _admit(self, request: Request, visit: Visit) -> Response | None:
        """Identify the visitor; return a refusal unless they may send this request."""
        # Do not use request.url, because a forged Host can change its path.
        path = request.scope["path"]
        if path.startswith(OPEN_PATHS):
            return None
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        has_secret = scheme.lower() == "bearer"
        context, cookie, visitor = request.app.state.context, request.cookies.get(SESSION_COOKIE), None
        try:
            if has_secret:
                visitor = await self.find_visitor(context, secret.strip())
            elif cookie:
                visitor = await to_thread.run_sync(
                    tokens.find_by_cookie, context, self.owner_token, cookie, limiter=self._reader_threads
                )
        except SQLAlchemyError as error:
            access_logger.error("an access token could not be looked up: %s", error_line(error))
            return problem_response(request, 503, "The database does not respond. Try again in a moment.")
        if visitor is None and self.owner_token is None and _may_be_server_user(request.scope):
            visitor = Visitor(tokens.LOCAL_USER)
        if visitor is None:
            refusal = self._refuse_stranger(request, has_secret=has_secret)
            return await self.delay_refusal(request, refusal) if has_secret else refusal
        visit.visitor = visitor
        if path.startswith(ADMIN_PATHS) and not visitor.is_admin:
            return problem_response(request, 403, f"Only tokens of scope admin may do this, not {visitor.name}.")
        if visitor.scope is AccessScope.READ and request.method not in SAFE_METHODS and path != "/logout":
            return problem_response(
                request, 403, f"The token {visitor.name} can only read. Ask for a token of scope write."
            )
        return None

    def _refuse_stranger(self, request: Request, *, has_secret: bool) -> Response:
        path = request.scope["path"]
        if self.owner_token is None:
            return problem_response(request, 403, OTHER_USER)
        if path.startswith("/api/") or "hx-request" in request.headers:  # a page that polls stays as it is
            return problem_response(request, 401, UNKNOWN_CREDENTIALS if has_secret else MISSING_CREDENTIALS)
        target = f"{path}?{request.url.query}" if request.method == "GET" else "/"
        return RedirectResponse(f"/login?next={quote(target.removesuffix('?'))}", 303)

    async def find_visitor(self, context: Context, secret: str) -> Visitor | None:
        if self.owner_token is not None and hmac.compare_digest(secret.encode(), self.owner_token.encode()):
            return Visitor(tokens.OWNER)
        return await to_thread.run_sync(tokens.find_by_secret, context, secret, limiter=self._reader_threads)

    async def delay_refusal(self, request: Request, refusal: Response) -> Response:
        """Log a wrong token. Delay refusals to one network, each longer than the last; answer 429 if too many wait."""
        address = activity.client_address(request.scope)
        network = ":".join(address.split(":")[:4])  # the half of an IPv6 address that names its network
        n_delayed = self._n_delayed_by_network[network]
        if n_delayed >= MAX_DELAYED:
            response = problem_response(request, 429, "Too many wrong access tokens. Try again in a second.")
            response.headers["Retry-After"] = "1"
            return response
        access_logger.warning("a wrong access token came from %s", address)
        self._n_delayed_by_network[network] += 1
        try:
            await asyncio.sleep(DELAY_SECONDS * (n_delayed + 1))
        finally:
            self._n_delayed_by_network -= Counter([network])  # subtraction drops counts of 0
        return refusal

    def _refuse(self, request: Request) -> Response | None:
        """Return the refusal of a request that no visitor may send; None for all others."""
        # PostgreSQL keeps no NUL in a text, so it must not get as far as a query.
        if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
            return problem_response(
                request, 422, "This address contains a NUL character (%00), which no name or id has."
            )
        host = request.headers.get("host", "")
        if not self._accepts_host(host):
            return problem_response(
                request, 421, f"This server does not answer to the name {host!r}. Open it by the address it "
                "printed at start, or add the name to ISOSCOPE_ALLOWED_HOSTS.",
            )  # fmt: skip
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None:
            is_same_origin = site in ("same-origin", "none")
        else:  # an old browser, or none
            is_same_origin = origin is None or origin.partition("://")[2] == host
        if request.method not in SAFE_METHODS and not is_same_origin:
            return problem_response(request, 403, "This change came from a page of another site and was refused.")
        return None

    def _accepts_host(self, host: str) -> bool:
        if FORBIDDEN_IN_HOST.search(host):
            return False
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        # With a token, DNS rebinding gains nothing, because our cookie is not sent to the other name.
        return is_loopback(name) or name in self._hosts or self.owner_token is not None


def _may_be_server_user(scope: Scope) -> bool:
    """Return whether a request comes from the server's user or root, or may, because its user is unknown."""
    peer, server = scope["visit"].peer, scope.get("server")
    return not peer or not server or peer_uid(peer, server) in (None, 0, os.geteuid())


class BodyLimit(HttpMiddleware):
    """Limits body sizes by path."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(app)
        self._settings = settings
        # Maximum bytes of files by pattern of the path. All files of a data set come in one body.
        self._max_file_bytes = {
            re.compile("embeddings"): settings.max_upload_bytes,
            re.compile("embeddings/[^/]+/tasks"): settings.max_dataset_bytes,
            re.compile("datasets"): 3 * settings.max_dataset_bytes,
            re.compile("encodings"): settings.max_dataset_bytes,
            re.compile("experiments/import"): settings.max_upload_bytes,
        }

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix("/api").strip("/")
        limits = self._max_file_bytes.items()
        max_file_bytes = next((max_bytes for pattern, max_bytes in limits if pattern.fullmatch(path)), 0)
        max_body_bytes = LOGIN_BYTES if path == "login" else max_file_bytes + FORM_OVERHEAD_BYTES
        length = Headers(scope=scope).get("content-length", "")
        declared_bytes = int(length) if length.isdigit() else 0
        received_bytes, response_started, exceeded = 0, False, declared_bytes > max_body_bytes
        if max_file_bytes and scope["method"] == "POST" and not exceeded:
            try:
                require_room(self._settings, upload_bytes=declared_bytes)
            except FullDiskError as error:
                await problem_response(Request(scope), 507, error.message, "file")(scope, receive, send)
                return

        async def receive_counted() -> Message:
            nonlocal received_bytes, exceeded
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > max_body_bytes:
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
            if not exceeded:
                await self._app(scope, receive_counted, send_unless_exceeded)
        finally:
            if exceeded and not response_started:
                await problem_response(Request(scope), 413, TOO_LARGE.format(max_body_bytes), "file")(
                    scope, receive, send
                )


router = APIRouter(include_in_schema=False)


@router.get("/login")
def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the URL
    return templates.TemplateResponse(request, "web/login.html", {"next": next, "problem": None})


@router.post("/login")
async def create_login(
    request: Request,
    context: ContextDep,
    token: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002
) -> Response:
    gate: Gate = request.scope["gate"]
    visitor = await gate.find_visitor(context, token.strip())
    if visitor is None:
        problem = InvalidError(
            "That is not a valid access token. Enter the value of ISOSCOPE_ACCESS_TOKEN on the server, or a token of "
            "its Access page that is neither revoked nor expired.",
            "token",
        )
        values = {"next": next, "problem": problem}
        response = templates.TemplateResponse(request, "web/login.html", values, status_code=401)
        return await gate.delay_refusal(request, response)
    request.scope["visit"].visitor = visitor
    cookie = await to_thread.run_sync(
        tokens.open_session, context, gate.owner_token, visitor.token_id, limiter=gate.writer_thread
    )
    # Other targets lead to other sites.
    target = next if (next.startswith("/") and not next.startswith(("//", "/\\"))) else "/"
    redirect = RedirectResponse(target, 303)
    # Behind a trusted proxy, the scheme is the browser's.
    is_secure, max_age = request.scope["scheme"] == "https", int(tokens.SESSION_LIFETIME.total_seconds())
    redirect.set_cookie(SESSION_COOKIE, cookie, max_age, httponly=True, samesite="strict", secure=is_secure)
    return redirect


@router.post("/logout")
def delete_login(request: Request, context: ContextDep) -> Response:
    if cookie_hash := request.scope["visit"].visitor.cookie_hash:
        tokens.close_session(context, cookie_hash)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(SESSION_COOKIE)
    return response
