"""Sealed test scores over the API."""

from datetime import datetime
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.db.models import ChoiceKind
from app.results.openings import OpeningRequest, TestSplit, open_test, read_test_split
from app.training.experiments import get_experiment
from app.web.dependencies import ContextDep, Row


class ChoiceOut(BaseModel):
    """A setting or run that can be chosen."""

    kind: ChoiceKind
    label: str = Field(description="The value for `choose`.")
    run_ids: list[str]


class OpeningOut(Row):
    """A frozen choice. The first of an experiment counts; later ones were made after the scores were seen."""

    number: int
    kind: ChoiceKind
    label: str
    note: str | None
    by: str
    at: datetime
    rows_sha256: str
    opened_before: int = Field(description="Choices opened on the same test rows before, in any experiment.")


class EstimateOut(Row):
    """A mean over seeds."""

    mean: float
    ci95_half_width: float | None = Field(
        validation_alias="half_width", description="By Student's t; null with one seed."
    )
    n: int = Field(description="Seeds.")


class OpenedOut(Row):
    """A setting or a run on the test rows."""

    label: str
    test: EstimateOut | None
    reason: str | None = Field(description="Why there is no score.")
    validation: EstimateOut | None
    difference: EstimateOut | None = Field(description="Test score minus the baseline's, paired by seed.")
    baseline: str | None
    chosen: int | None = Field(description="Number of the opening that chose it; null if none did.")


class TestSplitOut(BaseModel):
    """The test split of an experiment: sealed, or opened with its scores."""

    state: Literal["none", "sealed", "opened"]
    metric: str
    n: int | None = Field(description="Number of test rows; null until a run has scored them.")
    rows_sha256: str | None = Field(description="Hash of the test rows, whatever their order or file format.")
    scored_runs: int
    opened_on_rows: int = Field(description="Choices opened on these test rows so far, in any experiment.")
    settings: list[ChoiceOut] = Field(description="Settings that can be chosen; a run is chosen by its id.")
    openings: list[OpeningOut]
    chosen: OpenedOut | None = Field(description="The first choice on the test rows; null while sealed.")
    scores: list[OpenedOut] | None = Field(description="Every setting on the test rows; null while sealed.")

    @classmethod
    def from_split(cls, split: TestSplit) -> "TestSplitOut":
        scores = split.scores
        unopened_state: Literal["none", "sealed"] = "sealed" if split.exists else "none"
        return cls(
            state="opened" if scores else unopened_state,
            metric=split.experiment.config.metric,
            n=split.n,
            rows_sha256=split.rows_sha256,
            scored_runs=split.n_scored_runs,
            opened_on_rows=split.opened_on_rows,
            settings=[
                ChoiceOut(kind=choice.kind, label=choice.label, run_ids=[run.id for run in choice.runs])
                for choice in split.settings
            ],
            openings=[OpeningOut.model_validate(row) for row in split.openings],
            chosen=OpenedOut.model_validate(scores.first) if scores else None,
            scores=[OpenedOut.model_validate(row) for row in scores.settings] if scores else None,
        )


router = APIRouter(prefix="/experiments", tags=["experiments"])


@router.get("/{experiment_id}/opening")
def show_opening(context: ContextDep, experiment_id: str) -> TestSplitOut:
    """Show whether the test scores of an experiment are sealed; once opened, the choices and the scores."""
    return TestSplitOut.from_split(read_test_split(context, get_experiment(context, experiment_id)))


@router.post("/{experiment_id}/opening", status_code=201)
def open_scores(context: ContextDep, experiment_id: str, request: OpeningRequest) -> TestSplitOut:
    """Freeze a choice and open the test scores. The record is permanent; later choices are marked as changed."""
    return TestSplitOut.from_split(open_test(context, experiment_id, request))
