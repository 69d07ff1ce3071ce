"""Who did what: a line in the log for each request, a row for each change."""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy import Select, func, select, update
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import Context
from app.core.peer import SocketAddress
from app.db.models import AccessToken, Activity, Dataset, Embedding, Encoding, Experiment
from app.db.models.access import IS_LAUNCH, ROW_PAGE
from app.db.types import utcnow
from app.web.headers import HttpMiddleware, is_poll
from app.web.tokens import ANONYMOUS, LOCAL_USER, Visitor

access_logger = logging.getLogger("app.access")

UNLOGGED_PATHS = ("/static/", "/api/health")
POLL_LOG_SECONDS = 600.0
"""Polls of a page by one visitor are logged once in this time, because fifty browsers send two million a day."""
# Routes that change nothing, that a script calls every second, or that note each change themselves.
UNRECORDED_ROUTES = {
    "plan_experiment", "plan_encoding", "fill_in_from_yaml", "log_steps", "act_on_rows", "act_on_selected",
    "create_login", "delete_login", "create_access_token",
}  # fmt: skip
SUBJECT = re.compile(rf"(?:/api)?{ROW_PAGE}(?![^/?])")
ID_IN_JSON = re.compile(rb'"id":"([0-9a-f]{32})"')
SEARCHED_BYTES = 1000
"""How much of a response's body is searched for the id of the row that it created."""
# First part of the path of a row's page, by a request's path or the first part of it, where they differ.
PAGE_FOLDERS = {
    "trash": "embeddings", "studies": "experiments", "/samples/sweep": "experiments",
    "/samples/embedding": "encodings",
}  # fmt: skip
NAME_COLUMNS = {table.__tablename__: table.name for table in (Dataset, Embedding, Encoding, Experiment)}
NAME_COLUMNS["tokens"] = AccessToken.name


@dataclass
class Visit:
    """A request: its sender, its response, and its changes."""

    peer: SocketAddress | None
    """The other end of the connection, which may be a proxy."""
    visitor: Visitor = ANONYMOUS
    status: int = 0
    location: str = ""
    changes: list[Activity] = field(default_factory=list)


current_visit: ContextVar[Visit | None] = ContextVar("current_visit", default=None)


def current_user_name() -> str:
    visit = current_visit.get()
    return visit.visitor.name if visit is not None else LOCAL_USER


def note_change(action: str, subject: str, name: str) -> None:
    """Note a change of the current request, which may make several."""
    if (visit := current_visit.get()) is not None:
        visit.changes.append(Activity(action=action, subject=subject, name=name))


class AccessLog(HttpMiddleware):
    """Logs each request without its query, and repeated polls once. It must be the outermost middleware."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self._logged_polls: set[tuple[str, str, str]] = set()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Read the address before a proxy's headers replace it.
        visit = scope["visit"] = Visit(peer=scope.get("client"))
        started_at = time.perf_counter()

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status, visit.location = message["status"], Headers(scope=message).get("location", "")
            await send(message)

        try:
            await self._app(scope, receive, send_and_record)
        finally:
            path, milliseconds = quote(scope["path"]), 1000 * (time.perf_counter() - started_at)
            address = client_address(scope)
            is_answered_poll = is_poll(scope) and visit.status < HTTPStatus.BAD_REQUEST
            poll = (address, visit.visitor.name, path) if is_answered_poll else None
            if poll not in self._logged_polls and not scope["path"].startswith(UNLOGGED_PATHS):
                # Strangers may repeat a request to flood the log, so repeats of theirs are not all logged.
                repeat_key = f"{address} {visit.status}" if visit.visitor is ANONYMOUS else None
                access_logger.info(
                    '%s "%s" %s %s %d %.0f ms',
                    address, visit.visitor.name, scope["method"], path, visit.status, milliseconds,
                    extra={"repeat_key": repeat_key},
                )  # fmt: skip
                if poll is not None:
                    self._logged_polls.add(poll)
                    asyncio.get_running_loop().call_later(POLL_LOG_SECONDS, self._logged_polls.discard, poll)


def client_address(scope: Scope) -> str:
    return quote(scope["client"][0], safe=":.") if scope.get("client") else "-"


def find_subject(path: str) -> str:
    """Return the page of the row that a request path names; empty if it names none."""
    match = SUBJECT.match(path)
    return f"/{PAGE_FOLDERS.get(match[1], match[1])}/{match[2]}" if match else ""


def find_created_subject(path: str, location: str, body: bytes) -> str:
    """Return the page of the row that a request to ``path`` created, by its redirect or body; else ``path``."""
    path = path.removeprefix("/api")
    if subject := find_subject(location):
        return subject
    if (id_match := ID_IN_JSON.search(body)) is None:
        return path
    folder = path.split("/")[1]
    return f"/{PAGE_FOLDERS.get(path) or PAGE_FOLDERS.get(folder, folder)}/{id_match[1].decode()}"


def select_name(subject: str) -> Select[str] | None:
    """Return a query for the name of the row with this page; None if such rows have no name."""
    match = SUBJECT.match(subject)
    column = NAME_COLUMNS.get(match[1]) if match else None
    return None if match is None or column is None else select(column).where(column.class_.id == match[2])


def record_visit(context: Context, visit: Visit) -> None:
    """Store the changes of a visit, and the time of its token's use at most once a minute."""
    for change in visit.changes:
        if not change.name and (query := select_name(change.subject)) is not None:
            change.name = context.scalar(query) or ""
        change.by, change.subject, change.name = visit.visitor.name, change.subject[:200], change.name[:200]
    with context.sessions.begin() as session:
        session.add_all(visit.changes)
        if visit.visitor.must_record_use:
            token = update(AccessToken).where(AccessToken.id == visit.visitor.token_id)
            session.execute(token.values(last_used_at=utcnow()))


class ActivityPage(NamedTuple):
    """A page of changes, newest first, and the number of all changes."""

    rows: Sequence[Activity]
    total: int


def list_activity(context: Context, limit: int, offset: int) -> ActivityPage:
    with context.sessions() as session:
        rows = session.scalars(select(Activity).order_by(Activity.id.desc()).limit(limit).offset(offset)).all()
        return ActivityPage(rows, session.scalars(select(func.count(Activity.id))).one())


def find_launcher(context: Context, subject: str) -> str | None:
    """Return the name of the token that launched a row; None if none did."""
    launches = select(Activity.by).where(Activity.subject == subject, IS_LAUNCH, Activity.by != LOCAL_USER)
    return context.scalar(launches.order_by(Activity.id).limit(1))
