"""Dry runs and what they tell of a sweep."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from app.db.models import ResultStatus
from app.routes.api.schemas.row import Row


class EstimateOut(BaseModel):
    """What a sweep would take on the device that was timed, one run at a time: the mean, and from low to high."""

    seconds: float
    low_seconds: float
    high_seconds: float
    longest_seconds: float
    longest_low_seconds: float
    longest_high_seconds: float
    steps: int
    kept_bytes: int
    passing_bytes: int
    kinds_untimed: int


class DryRunOut(Row):
    """A dry run; its results are null until there are any."""

    id: str
    dataset_id: str
    status: ResultStatus
    error: str | None
    results: dict[str, Any] | None
    created_at: datetime


class DryRunAnswer(BaseModel):
    """A dry run, and what it tells of the sweep that was asked about, null until there are results."""

    dry_run: DryRunOut
    runs: int
    words: str
    """The count with its factors."""
    notes: list[str]
    estimate: EstimateOut | None
