"""Data sets."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, computed_field

from app.db.hub_tasks import HubName
from app.db.models import DatasetOrigin
from app.formats.quoting import Quoting
from app.routes.api.schemas.row import Row
from app.services.proposal import TaskProposal, propose_for


class DatasetOut(Row):
    """A data set and its columns."""

    id: str
    name: str
    origin: DatasetOrigin
    hub_name: HubName | None = Field(description="The task of the Hub; null for an upload.")
    train_filename: str | None
    validation_filename: str | None
    test_filename: str | None
    n_train: int | None
    n_validation: int | None
    n_test: int | None = Field(description="Null without a test split; else every run is scored on it, sealed.")
    division: dict[str, Any] | None = Field(description="How the rows of one file were divided; null where not.")
    columns: list[Any]
    quoting: dict[str, Quoting] | None = Field(
        description="How the quotes of .tsv files are read, by split, of those that hold any. Null of data sets stored "
        "before quotes were detected: as text."
    )
    created_at: datetime

    @computed_field(description="What it looks like: the task that a sweep would train; null where nothing fits.")  # type: ignore[prop-decorator]
    @property
    def proposal(self) -> TaskProposal | None:
        """The likeliest task."""
        return propose_for(self.hub_name, self.columns)


class QuotingRequest(BaseModel):
    """How quotes are to be read."""

    model_config = ConfigDict(extra="forbid")

    quoting: Quoting


class HubRequest(BaseModel):
    """A task of the Hub by its name."""

    model_config = ConfigDict(extra="forbid")

    name: HubName
    test: bool | None = Field(
        None, description="Whether to score its test split; null: where that has labels. True is refused where not."
    )
