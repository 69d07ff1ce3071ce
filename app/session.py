"""The cookie of who has signed in: signed with a secret of its own, and Secure wherever the browser came by TLS."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.settings import Settings

SESSION_SECONDS = 14 * 24 * 3600
SECRET_BYTES = 32
STORED_IN = "session.key"


class SignedSessions:
    """ASGI middleware that reads and writes the session's cookie."""

    def __init__(self, app: ASGIApp, settings: Settings, token: str) -> None:
        # With the token in it, a new token ends every session.
        secret = hmac.new(session_secret(settings.root), token.encode(), hashlib.sha256).hexdigest()
        self._plain, self._secure = (
            SessionMiddleware(app, secret, max_age=SESSION_SECONDS, same_site="strict", https_only=https_only)
            for https_only in (False, True)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its session."""
        # Of what a trusted proxy forwards uvicorn has put the browser's scheme there.
        sessions = self._secure if scope.get("scheme") == "https" else self._plain
        await sessions(scope, receive, send)


def session_secret(folder: Path) -> bytes:
    """Return the random secret of a data folder, made at the first call for this user's eyes only."""
    path = folder / STORED_IN
    if not path.exists():
        unfinished = folder / f"{STORED_IN}.{secrets.token_hex(8)}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
            os.link(unfinished, path)  # fails where another process was first
        except FileExistsError:
            pass
        finally:
            unfinished.unlink()
    return path.read_bytes()
