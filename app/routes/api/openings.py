"""Sealed test scores over the API."""

from fastapi import APIRouter

from app.dependencies import ContextDep
from app.routes.api.schemas.openings import TestSplitOut
from app.services.experiments import get_experiment
from app.services.openings import OpeningRequest, open_test, read_test_split

router = APIRouter(prefix="/experiments", tags=["experiments"])


@router.get("/{experiment_id}/opening")
def show_opening(context: ContextDep, experiment_id: str) -> TestSplitOut:
    """Show whether the test scores of an experiment are sealed; once opened, the choices and the scores."""
    return TestSplitOut.of(read_test_split(context, get_experiment(context, experiment_id)))


@router.post("/{experiment_id}/opening", status_code=201)
def open_scores(context: ContextDep, experiment_id: str, request: OpeningRequest) -> TestSplitOut:
    """Freeze a choice and open the test scores. Recorded for ever; a later choice is marked as changed afterwards."""
    return TestSplitOut.of(open_test(context, experiment_id, request))
