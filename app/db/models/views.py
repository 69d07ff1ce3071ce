"""Views: what a page shows, kept under a short id."""

from datetime import datetime

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.types import utcnow


class View(Base):
    """The address of a page with all that is chosen there, named so that it can be found and sent."""

    __tablename__ = "views"

    id: Mapped[str] = mapped_column(String(12), primary_key=True)
    """Random, and short enough to be told on the telephone."""
    name: Mapped[str] = mapped_column(String(200))
    path: Mapped[str] = mapped_column(String(200))
    query: Mapped[str] = mapped_column(Text)
    """The query string, without the question mark."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
