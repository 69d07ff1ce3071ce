"""Who did what: a line in the log for each request, a row for each change."""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from sqlalchemy import Select, func, select, update
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import Context
from app.core.peer import SocketAddress
from app.db.models import AccessToken, Activity, Dataset, Embedding, Encoding, Experiment
from app.db.models.access import IS_LAUNCH
from app.db.types import utcnow
from app.web.headers import HttpMiddleware, is_poll
from app.web.tokens import ANONYMOUS, LOCAL_USER, Visitor

access_logger = logging.getLogger("app.access")

UNLOGGED_PATHS = ("/static/", "/api/health")
POLL_LOG_SECONDS = 600.0
"""One line stands for the polls of a page by one visitor in this time; fifty browsers send two million a day."""
# Routes that change nothing, that a script calls every second, or that note each change themselves.
UNRECORDED_ROUTES = {
    "plan_experiment", "plan_encoding", "fill_in_from_yaml", "log_steps", "act_on_rows", "act_on_selected",
    "create_login", "delete_login", "create_access_token",
}  # fmt: skip
SUBJECT = re.compile(r"(?:/api)?/(\w+)/([0-9a-f]{32})(?![^/?])")
ID_IN_JSON = re.compile(rb'"id":"([0-9a-f]{32})"')
HEAD_BYTES = 1000
# Whose page shows what a route makes, where the path of the route does not say it.
NOUNS = {
    "trash": "embeddings", "studies": "experiments", "/samples/sweep": "experiments",
    "/samples/embedding": "encodings",
}  # fmt: skip
NAMES = {table.__tablename__: table.name for table in (Dataset, Embedding, Encoding, Experiment)}
NAMES["tokens"] = AccessToken.name


@dataclass
class Visit:
    """A request: where it comes from, who sends it, how it ends, and what it changes."""

    peer: SocketAddress | None
    """The other end of the connection, which may be a proxy."""
    visitor: Visitor = ANONYMOUS
    status: int = 0
    location: str = ""
    changes: list[Activity] = field(default_factory=list)


current_visit: ContextVar[Visit | None] = ContextVar("current_visit", default=None)


def name_of_user() -> str:
    visit = current_visit.get()
    return visit.visitor.name if visit is not None else LOCAL_USER


def note_change(action: str, subject: str, name: str) -> None:
    """Note one of several changes of the current request."""
    if (visit := current_visit.get()) is not None:
        visit.changes.append(Activity(action=action, subject=subject, name=name))


class AccessLog(HttpMiddleware):
    """Logs a line for each request, without its query, and one for repeated polls. It must be the outermost."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self._logged_polls: set[tuple[str, str, str]] = set()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Taken before a proxy's headers replace the address.
        visit = scope["visit"] = Visit(peer=scope.get("client"))
        started = time.perf_counter()

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status, visit.location = message["status"], Headers(scope=message).get("location", "")
            await send(message)

        try:
            await self._app(scope, receive, send_and_record)
        finally:
            path, milliseconds = quote(scope["path"]), 1000 * (time.perf_counter() - started)
            address = address_of(scope)
            is_answered_poll = is_poll(scope) and visit.status < HTTPStatus.BAD_REQUEST
            poll = (address, visit.visitor.name, path) if is_answered_poll else None
            if poll not in self._logged_polls and not scope["path"].startswith(UNLOGGED_PATHS):
                repeat_key = f"{address} {visit.status}" if visit.visitor is ANONYMOUS else None
                access_logger.info(
                    '%s "%s" %s %s %d %.0f ms',
                    address, visit.visitor.name, scope["method"], path, visit.status, milliseconds,
                    extra={"repeat_key": repeat_key},
                )  # fmt: skip
                if poll is not None:
                    self._logged_polls.add(poll)
                    asyncio.get_running_loop().call_later(POLL_LOG_SECONDS, self._logged_polls.discard, poll)


def address_of(scope: Scope) -> str:
    return quote(scope["client"][0], safe=":.") if scope.get("client") else "-"


def subject_of(path: str) -> str:
    """Return the path of the page of the row that a path is about, empty if it is about none."""
    match = SUBJECT.match(path)
    return f"/{NOUNS.get(match[1], match[1])}/{match[2]}" if match else ""


def created_subject(path: str, location: str, body: bytes) -> str:
    """Return the page's path of the row that a request to ``path`` created, from the response."""
    path = path.removeprefix("/api")
    noun, row_id = path.split("/")[1], ID_IN_JSON.search(body)
    created_path = f"/{NOUNS.get(path) or NOUNS.get(noun, noun)}/{row_id[1].decode()}" if row_id else path
    return subject_of(location) or created_path


def name_query(subject: str) -> Select[str] | None:
    """Return a query for the name of the row with this page; None if such rows have no name."""
    match = SUBJECT.match(subject)
    column = NAMES.get(match[1]) if match else None
    return None if match is None or column is None else select(column).where(column.class_.id == match[2])


def record_visit(context: Context, visit: Visit) -> None:
    """Write what a visit changed, and that its token was used."""
    for change in visit.changes:
        if not change.name and (query := name_query(change.subject)) is not None:
            change.name = context.scalar(query) or ""
        change.by, change.subject, change.name = visit.visitor.name, change.subject[:200], change.name[:200]
    with context.sessions.begin() as session:
        session.add_all(visit.changes)
        if visit.visitor.use_is_due:
            token = update(AccessToken).where(AccessToken.id == visit.visitor.token_id)
            session.execute(token.values(last_used_at=utcnow()))


def list_activity(context: Context, limit: int, offset: int) -> tuple[Sequence[Activity], int]:
    """Return a page of all changes, newest first, and how many there are."""
    with context.sessions() as session:
        rows = session.scalars(select(Activity).order_by(Activity.id.desc()).limit(limit).offset(offset)).all()
        return rows, session.scalars(select(func.count(Activity.id))).one()


def find_launcher(context: Context, subject: str) -> str | None:
    """Return the name of the token that made a row, if one did."""
    launches = select(Activity.by).where(Activity.subject == subject, IS_LAUNCH, Activity.by != LOCAL_USER)
    return context.scalar(launches.order_by(Activity.id).limit(1))
