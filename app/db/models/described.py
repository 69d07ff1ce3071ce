"""What a user says of an embedding or an experiment: columns that both tables share."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column


class Tagged:
    """A row whose tags are in a table of their own, ``tags`` of the row."""

    id: Any
    tags: Any

    @property
    def words(self) -> Collection[str]:
        """Its tags as texts."""
        return [one.tag for one in self.tags]


class Described(Tagged):
    """Name, notes, star and shelf of a row."""

    created_at: Any

    name: Mapped[str] = mapped_column(String(200))
    notes: Mapped[str] = mapped_column(Text, default="")
    starred: Mapped[bool] = mapped_column(default=False)
    archived_at: Mapped[datetime | None]
    """When it was archived: lists leave it out unless they are asked for it."""
