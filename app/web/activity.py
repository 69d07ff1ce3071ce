"""Who did what: a line in the log for each request, a row for each change."""

import logging
import re
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from urllib.parse import quote

from sqlalchemy import func, select, update
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import Context
from app.core.peer import SocketAddress
from app.db.models import AccessToken, Activity, Dataset, Embedding, Encoding, Experiment
from app.db.types import utcnow
from app.web.tokens import ANONYMOUS, LOCAL_USER, Visitor

access_logger = logging.getLogger("app.access")

UNLOGGED_PATHS = ("/static/", "/api/health")
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


class AccessLog:
    """ASGI wrapper that logs a line for each request, without its query. It must be the outermost."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Taken before a proxy's headers replace the address.
        visit = scope["visit"] = Visit(peer=scope.get("client"))
        started = time.perf_counter()

        async def send_noting_status(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status, visit.location = message["status"], Headers(scope=message).get("location", "")
            await send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            if not scope["path"].startswith(UNLOGGED_PATHS):
                path, milliseconds = quote(scope["path"]), 1000 * (time.perf_counter() - started)
                address = address_of(scope)
                repeat_key = f"{address} {visit.status}" if visit.visitor is ANONYMOUS else None
                access_logger.info(
                    '%s "%s" %s %s %d %.0f ms',
                    address, visit.visitor.name, scope["method"], path, visit.status, milliseconds,
                    extra={"repeat_key": repeat_key},
                )  # fmt: skip


def address_of(scope: Scope) -> str:
    return quote(scope["client"][0], safe=":.") if scope.get("client") else "-"


def subject_of(path: str) -> str:
    """Return the path of the page of the row that a path is about, empty if it is about none."""
    match = SUBJECT.match(path)
    return f"/{NOUNS.get(match[1], match[1])}/{match[2]}" if match else ""


def created_subject(path: str, location: str, body: bytes) -> str:
    """Return the path of the page of the row that a request to ``path`` made, by what was answered."""
    path = path.removeprefix("/api")
    noun, row_id = path.split("/")[1], ID_IN_JSON.search(body)
    created_path = f"/{NOUNS.get(path) or NOUNS.get(noun, noun)}/{row_id[1].decode()}" if row_id else path
    return subject_of(location) or created_path


def find_name(context: Context, subject: str) -> str:
    match = SUBJECT.match(subject)
    column = NAMES.get(match[1]) if match else None
    if match is None or column is None:
        return ""
    return context.scalar(select(column).where(column.class_.id == match[2])) or ""


def record_visit(context: Context, visit: Visit) -> None:
    """Write what a visit changed, and that its token was used."""
    for change in visit.changes:
        name = change.name or find_name(context, change.subject)
        change.by, change.subject, change.name = visit.visitor.name, change.subject[:200], name[:200]
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
    first = context.scalar(select(Activity).where(Activity.subject == subject).order_by(Activity.id).limit(1))
    is_launch = first is not None and first.action.startswith(("create", "launch"))
    return first.by if first is not None and is_launch and first.by != LOCAL_USER else None
