"""Access tokens, browser sessions, and activity."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Literal

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.types import new_id, utcnow


class AccessScope(StrEnum):
    """What a token allows: reading; also changing data; also managing tokens."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class AccessToken(Base):
    """A named token. Only its hash is stored."""

    __tablename__ = "access_tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(60))
    scope: Mapped[AccessScope]
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(default=utcnow)
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]

    @property
    def state(self) -> Literal["valid", "revoked", "expired"]:
        if self.revoked_at is not None:
            return "revoked"
        return "valid" if self.expires_at is None or self.expires_at > utcnow() else "expired"


class LoginSession(Base):
    """A signed-in browser. Without a token id, it signed in with ISOSCOPE_ACCESS_TOKEN."""

    __tablename__ = "login_sessions"

    cookie_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str | None] = mapped_column(ForeignKey("access_tokens.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=utcnow)


ROW_PAGE = r"/(\w+)/([0-9a-f]{32})"
"""The path of a row's page."""


class Activity(Base):
    """A change that a request made: who did what to which row."""

    __tablename__ = "activity"

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(default=utcnow)
    by: Mapped[str] = mapped_column(String(60))
    action: Mapped[str] = mapped_column(String(60))
    # Path of the changed row's page, and the row's name at that time.
    subject: Mapped[str] = mapped_column(String(200), index=True)
    name: Mapped[str] = mapped_column(String(200))

    @property
    def has_page(self) -> bool:
        """Whether the subject is the page of a row that this change has not deleted."""
        match = re.fullmatch(ROW_PAGE, self.subject)
        return match is not None and match[1] != "tokens" and not self.action.startswith(("delete", "purge"))


IS_LAUNCH = Activity.action.startswith("create") | Activity.action.startswith("launch")
