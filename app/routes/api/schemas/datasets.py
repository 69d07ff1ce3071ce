"""Data sets."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from app.db.hub_tasks import HubName
from app.db.models import DatasetOrigin
from app.routes.api.schemas.row import Row


class DatasetOut(Row):
    """A data set and its columns."""

    id: str
    name: str
    origin: DatasetOrigin
    train_filename: str | None
    validation_filename: str | None
    n_train: int | None
    n_validation: int | None
    columns: list[Any]
    created_at: datetime


class HubRequest(BaseModel):
    """A task of the Hub by its name."""

    model_config = ConfigDict(extra="forbid")

    name: HubName
