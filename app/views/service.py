"""Views: what a page shows, kept under a name and an address short enough to be told."""

import re
import secrets
from urllib.parse import parse_qsl, urlencode

from sqlalchemy import delete, func, select

from app.context import Context, missing
from app.core.names import MAX_NAME_CHARACTERS
from app.db.models import View
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import one_line

ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Without what looks alike: 0 and o, 1, i and l."""
ID_CHARACTERS = 8
MAX_QUERY = 64_000
"""Characters of what is stored; servers and browsers read addresses that long."""
PAGES = re.compile(
    r"/experiments|/experiments/[0-9a-f]{32}|/compare|/compare/runs|/compare/runs/list|/measures|/playground"
    r"|/embeddings|/embeddings/[0-9a-f]{32}|/encodings/[0-9a-f]{32}|/runs/[0-9a-f]{32}"
)
"""The pages whose state is in their address. Nothing else is ever sent to: no other host, and nothing that changes."""


def create_view(context: Context, name: str, path: str, query: str) -> View:
    """Keep a page with its query under a name. Raises InvalidError of the field that cannot be kept."""
    view = View(id=_new_id(), name=_name(name), path=_path(path), query=_query(query))
    with context.sessions.begin() as session:
        session.add(view)
    return view


def list_views(context: Context, *, limit: int, offset: int = 0) -> list[View]:
    """Views, newest first."""
    newest = select(View).order_by(View.created_at.desc(), View.id).limit(limit).offset(offset)
    return context.scalars(newest)


def count_views(context: Context) -> int:
    """How many there are."""
    return context.scalar(select(func.count(View.id))) or 0


def get_view(context: Context, view_id: str) -> View:
    """The view of that id."""
    view = context.get(View, view_id)
    if view is None:
        raise missing("view", view_id)
    return view


def delete_view(context: Context, view_id: str) -> None:
    """Forget it; what it shows stays."""
    with context.sessions.begin() as session:
        gone = session.scalar(delete(View).where(View.id == view_id).returning(View.id))
    if gone is None:
        raise missing("view", view_id)


def address_of(view: View) -> str:
    """Where the page is that it shows."""
    return f"{view.path}?{view.query}" if view.query else view.path


def _new_id() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(ID_CHARACTERS))


def _name(given: str) -> str:
    name = one_line(given)
    if not name:
        raise InvalidError("Expected a name for the view, got none. Describe what the view shows.", "name")
    if len(name) > MAX_NAME_CHARACTERS:
        raise InvalidError(
            f"Expected a name of at most {MAX_NAME_CHARACTERS} characters, got {len(name)}. Shorten it.", "name"
        )
    return name


def _path(given: str) -> str:
    if not PAGES.fullmatch(given):
        raise InvalidError(
            f"Expected the path of a page that has views, such as /compare/runs, got {given[:100]!r}. "
            "Save the view on the page itself.",
            "path",
        )
    return given


def _query(given: str) -> str:
    """The query in the one way of writing it, in which nothing can end the address or begin another."""
    if len(given) > MAX_QUERY:
        raise _too_long(len(given))
    pairs = parse_qsl(given.removeprefix("?"), keep_blank_values=True, errors="replace")
    if any("\0" in text for pair in pairs for text in pair):
        raise InvalidError("Expected a query without a NUL character (%00); no page reads one.", "query")
    query = urlencode(pairs, errors="replace")
    if len(query) > MAX_QUERY:
        raise _too_long(len(query))
    return query


def _too_long(characters: int) -> InvalidError:
    return InvalidError(
        f"Expected a query of at most {MAX_QUERY:,} characters, got {characters:,}. Choose fewer things, or search "
        "for them instead of naming each.",
        "query",
    )
