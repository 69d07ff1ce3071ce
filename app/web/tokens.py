"""Create, find and end access tokens and browser sessions. Only hashes of secrets are stored."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, ValidationError
from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import Session

from app.context import Context, not_found
from app.db.models import AccessScope, AccessToken, LoginSession
from app.db.session import acquire_locks
from app.db.types import utcnow
from app.web.error_responses import to_invalid_error
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import one_line
from isoscope.files.strict import Strict

OWNER, LOCAL_USER = "owner", "local user"
SESSION_LIFETIME = timedelta(days=14)
USE_RECORD_INTERVAL = timedelta(minutes=1)
SECRET_BYTES = 32
MAX_DAYS = 3650


class Visitor(NamedTuple):
    """The sender of a request: the holder of a token, or the user who runs the server."""

    name: str
    scope: AccessScope | None = AccessScope.ADMIN
    token_id: str | None = None
    cookie_hash: str | None = None
    """Of the browser session, if any."""
    must_record_use: bool = False
    """Whether to store the time of this use. False within a minute of the last stored one."""

    @property
    def is_admin(self) -> bool:
        return self.scope is AccessScope.ADMIN


ANONYMOUS = Visitor("-", None)


class TokenRequest(Strict):
    """A new access token."""

    name: Annotated[str, Field(min_length=1, max_length=60, description="Whose it is."), AfterValidator(one_line)]
    scope: Annotated[
        AccessScope,
        Field(
            description="`read` can view, `write` can change everything except tokens, `admin` can also manage tokens."
        ),
    ] = AccessScope.WRITE
    days: Annotated[int | None, Field(ge=1, le=MAX_DAYS, description="Days until it expires; null: never.")] = None


def parse_token_request(fields: Mapping[str, str | None]) -> TokenRequest:
    try:
        return TokenRequest.model_validate(fields)
    except ValidationError as error:
        raise to_invalid_error(error.errors()) from error


def create_token(context: Context, request: TokenRequest) -> tuple[AccessToken, str]:
    """Create a token; return it with its secret. Raise InvalidError if a valid token has this name."""
    secret, now = f"isoscope_{secrets.token_urlsafe(SECRET_BYTES)}", utcnow()
    token = AccessToken(
        name=request.name,
        scope=request.scope,
        secret_hash=_hash(secret),
        created_at=now,
        expires_at=now + timedelta(days=request.days) if request.days else None,
    )
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), AccessToken.__tablename__)
        if not request.name:
            raise InvalidError("A token needs a name. Type one.", "name")
        if request.name.lower() in (OWNER, LOCAL_USER, ANONYMOUS.name) or _find_valid_token(session, request.name):
            raise InvalidError(
                f"The name {request.name!r} is taken. Choose another one, or revoke that token first.", "name"
            )
        session.add(token)
    return token, secret


def list_tokens(context: Context) -> Sequence[AccessToken]:
    """Return all tokens, newest first, including revoked and expired ones."""
    return context.scalars(select(AccessToken).order_by(AccessToken.created_at.desc(), AccessToken.id))


def revoke_token(context: Context, key: str) -> AccessToken:
    """Revoke a token by its id, or a valid token by its name, and end its sessions."""
    with context.sessions.begin() as session:
        token = session.get(AccessToken, key) or _find_valid_token(session, key)
        if token is None:
            raise not_found("token", key)
        token.revoked_at = token.revoked_at or utcnow()
        session.execute(delete(LoginSession).where(LoginSession.token_id == token.id))
    return token


def find_by_secret(context: Context, secret: str) -> Visitor | None:
    token = context.scalar(select(AccessToken).where(AccessToken.secret_hash == _hash(secret)))
    return _to_visitor(token) if token is not None else None


def find_by_cookie(context: Context, owner_token: str | None, cookie: str) -> Visitor | None:
    cookie_hash = _hash_cookie(cookie, owner_token)
    login = context.get(LoginSession, cookie_hash)
    if login is None or login.created_at < utcnow() - SESSION_LIFETIME:
        return None
    token = context.get(AccessToken, login.token_id) if login.token_id else None
    return _to_visitor(token, cookie_hash) if token is not None else Visitor(OWNER, cookie_hash=cookie_hash)


def open_session(context: Context, owner_token: str | None, token_id: str | None) -> str:
    """Open a session and return its cookie; delete expired sessions."""
    cookie = secrets.token_urlsafe(SECRET_BYTES)
    with context.sessions.begin() as session:
        session.execute(delete(LoginSession).where(LoginSession.created_at < utcnow() - SESSION_LIFETIME))
        session.add(LoginSession(cookie_hash=_hash_cookie(cookie, owner_token), token_id=token_id))
    return cookie


def close_session(context: Context, cookie_hash: str) -> None:
    with context.sessions.begin() as session:
        session.execute(delete(LoginSession).where(LoginSession.cookie_hash == cookie_hash))


def _find_valid_token(session: Session, name: str) -> AccessToken | None:
    query = select(AccessToken).where(
        func.lower(AccessToken.name) == name.lower(),
        AccessToken.revoked_at.is_(None),
        or_(AccessToken.expires_at.is_(None), AccessToken.expires_at > utcnow()),
    )
    return session.scalar(query)


def _to_visitor(token: AccessToken, cookie_hash: str | None = None) -> Visitor | None:
    """Return the holder of a token; None if it is revoked or expired."""
    must_record_use = token.last_used_at is None or token.last_used_at < utcnow() - USE_RECORD_INTERVAL
    return Visitor(token.name, token.scope, token.id, cookie_hash, must_record_use) if token.state == "valid" else None


def _hash(secret: str) -> str:
    """Return the SHA-256 of a secret. With 256 random bits it needs neither a salt nor a slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _hash_cookie(cookie: str, owner_token: str | None) -> str:
    """Return a hash keyed by ISOSCOPE_ACCESS_TOKEN, so that changing the token ends every session."""
    return hmac.new((owner_token or "").encode(), cookie.encode(), hashlib.sha256).hexdigest()
