"""Imports of experiments."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.db.models import ImportStatus
from app.routes.api.schemas.row import Row


class ImportOut(Row):
    """An exported experiment on its way in."""

    id: str
    filename: str
    status: Annotated[ImportStatus, Field(description="The experiment is visible once this is `finished`.")]
    done: Annotated[int, Field(description="Rows written so far: runs, steps and data of figures.")]
    total: Annotated[int | None, Field(description="Rows to write; null until the file has been checked.")]
    error: str | None
    page: Annotated[str | None, Field(description="Path of the page that `error` refers to.")]
    experiment_id: Annotated[str | None, Field(description="Null once the experiment has been deleted.")]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
