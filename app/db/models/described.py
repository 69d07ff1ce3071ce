"""What a user says of an embedding or an experiment: columns that both tables share."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column


class Described:
    """Name, notes, star and shelf of a row; its tags are in a table of their own, ``tags`` of the row."""

    id: Any
    created_at: Any
    tags: Any

    name: Mapped[str] = mapped_column(String(200))
    notes: Mapped[str] = mapped_column(Text, default="")
    starred: Mapped[bool] = mapped_column(default=False)
    archived_at: Mapped[datetime | None]
    """When it was archived: lists leave it out unless they are asked for it."""

    @property
    def words(self) -> Collection[str]:
        """Its tags as texts."""
        return [one.tag for one in self.tags]
