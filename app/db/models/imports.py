"""Imports of experiments: how far each is, and which rows are hidden until it has finished."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.models.states import ImportStatus
from app.db.types import new_id, utcnow


class Import(Base):
    """One archive on its way in. Its experiment and data set stay hidden (``app.db.arriving``) until it finishes."""

    __tablename__ = "imports"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    filename: Mapped[str] = mapped_column(String(255))
    file_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    """The archive; null once the import has ended."""
    status: Mapped[ImportStatus] = mapped_column(default=ImportStatus.QUEUED, index=True)
    content: Mapped[str | None] = mapped_column(String(64))
    """A hash of the rows that were checked: two imports of the same rows never go on together."""
    written: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Rows written so far by member of the archive, so that an import goes on where it was killed."""
    total: Mapped[int | None]
    """Rows of all members; null until the archive has been checked."""
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)
    page: Mapped[str | None] = mapped_column(String(200))
    """Path of what the error names."""
    experiment_id: Mapped[str | None] = mapped_column(ForeignKey("experiments.id", ondelete="SET NULL"), index=True)
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id", ondelete="SET NULL"), index=True)
    """Only a data set that this import made."""
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    started_at: Mapped[datetime | None]
    """When the last attempt began; who began last writes."""
    finished_at: Mapped[datetime | None]

    @property
    def done(self) -> int:
        """Rows written so far."""
        return sum(self.written.values())
