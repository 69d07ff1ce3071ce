"""Dry runs over the API."""

from fastapi import APIRouter

from app.db.models import DryRun
from app.dependencies import ContextDep
from app.routes.api.schemas.dry_runs import DryRunAnswer, DryRunOut, EstimateOut
from app.services import dry_runs
from app.services.estimates import estimate
from app.services.sweeps import SweepRequest, plan_sweep

router = APIRouter(prefix="/dry-runs", tags=["experiments"])


@router.post("", status_code=202, response_model=DryRunAnswer)
def request_dry_run(context: ContextDep, request: SweepRequest) -> DryRunAnswer:
    """Try eight rows and a few steps of a sweep that is not launched. Ask again for the estimate, until it is there."""
    plan = plan_sweep(context, request)
    asked = dry_runs.request_dry_run(context, plan)
    told = estimate(plan, asked)
    return DryRunAnswer(
        dry_run=DryRunOut.model_validate(asked),
        runs=len(plan.runs),
        words=plan.words,
        notes=plan.notes,
        estimate=None if told is None else EstimateOut(**told._asdict()),
    )


@router.delete("/{dry_run_id}", status_code=204)
def delete_dry_run(context: ContextDep, dry_run_id: str) -> None:
    """Delete a dry run, so that the next request tries anew; one that waits or is at work is stopped."""
    dry_runs.delete_dry_run(context, dry_run_id)


@router.get("/{dry_run_id}", response_model=DryRunOut)
def show_dry_run(context: ContextDep, dry_run_id: str) -> DryRun:
    """A dry run with the rows as the model reads them, its first loss and the times of its steps."""
    return dry_runs.get_dry_run(context, dry_run_id)
