"""Runs over the API."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse

from app.db.models import Run, Split
from app.dependencies import ContextDep
from app.routes.api.paging import TOTAL, Limit, Offset
from app.routes.api.schemas.experiments import ActivationOut, PredictionOut, RunOut, ScriptRunOut
from app.routes.api.schemas.queue import Move, PriorityIn
from app.routes.responses import DOCUMENTED, csv_of, file_of
from app.services import pausing, runs, script_predictions, script_runs, turns
from app.services.files import get_model
from app.services.library import PAGE_ROWS
from app.services.predictions import get_predictions
from app.services.relaunch import request_of_run
from app.services.run_data import get_activation
from app.services.script_config import ScriptRun
from app.services.script_predictions import LoggedPredictions
from app.services.script_runs import Ending, LoggedSteps
from app.services.sweeps import SweepRequest

router = APIRouter(prefix="/runs", tags=["runs"])
TOTAL_OR_CSV: dict[int | str, dict[str, Any]] = {
    200: {**TOTAL[200], "content": {"text/csv": {"schema": {"type": "string"}}}}
}


@router.post("", status_code=201, response_model=ScriptRunOut)
def begin_run(context: ContextDep, told: ScriptRun) -> Run:
    """Begin a run of your own training loop: it is shown as its steps are logged. No worker touches it."""
    return script_runs.begin_run(context, told)


@router.post("/{run_id}/steps", response_model=ScriptRunOut)
def log_steps(context: ContextDep, run_id: str, told: LoggedSteps) -> Run:
    """Log steps of a run that a script began; a step that is logged again takes what is new. 409: it has ended."""
    return script_runs.log_steps(context, run_id, told)


@router.post("/{run_id}/predictions", response_model=ScriptRunOut)
def log_predictions(context: ContextDep, run_id: str, told: LoggedPredictions) -> Run:
    """Log what a script's run predicted for validation rows, up to 10,000 at once. 409: it has ended."""
    return script_predictions.log_predictions(context, run_id, told)


@router.post("/{run_id}/finish", response_model=ScriptRunOut)
def finish_run(context: ContextDep, run_id: str, told: Ending) -> Run:
    """End a run that a script began, with its metrics or with what went wrong."""
    return script_runs.finish_run(context, run_id, told)


@router.get("/{run_id}", response_model=RunOut)
def show_run(context: ContextDep, run_id: str) -> Run:
    """One run with its configuration, results, environment and logged steps."""
    return runs.get_run(context, run_id)


@router.get("/{run_id}/request")
def show_request(context: ContextDep, run_id: str) -> SweepRequest:
    """What launches this run again, beside its baseline: `POST /api/experiments` takes it."""
    return request_of_run(runs.get_run(context, run_id))


@router.get("/{run_id}/model", **DOCUMENTED)
def download_model(context: ContextDep, run_id: str) -> FileResponse:
    """The trained model of a run whose configuration says `export`: a zip file of weights, tokenizer and model card."""
    return file_of(get_model(context, run_id))


@router.get("/{run_id}/activation", response_model=ActivationOut)
def show_activation(context: ContextDep, run_id: str) -> dict[str, Any]:
    """Mean and standard deviation of each dimension of the trained model's sentence vectors, on the validation rows."""
    return get_activation(context, run_id)


@router.get("/{run_id}/predictions", response_model=list[PredictionOut], responses=TOTAL_OR_CSV)
def list_predictions(
    context: ContextDep,
    response: Response,
    run_id: str,
    format: Annotated[  # noqa: A002 - the name in the URL
        Literal["json", "csv"], Query(description="JSON is one page of rows; CSV is a file of all of them.")
    ] = "json",
    split: Annotated[Split, Query(description="`test`: 409 until the experiment's test scores are opened.")] = (
        Split.VALIDATION
    ),
    limit: Limit = PAGE_ROWS,
    offset: Offset = 0,
) -> Response | list[dict[str, Any]]:
    """What a finished run predicted for each row of a split, beside the reference; how many is in `X-Total-Count`."""
    found = get_predictions(context, run_id, split)
    if format == "csv":
        return csv_of(found)
    response.headers["X-Total-Count"] = str(len(found.predictions))
    return [row._asdict() for row in found.rows(offset, offset + limit)]


@router.post("/{run_id}/cancel", response_model=RunOut)
def cancel_run(context: ContextDep, run_id: str) -> Run:
    """Cancel a run that has not ended."""
    return runs.cancel_run(context, run_id)


@router.post("/{run_id}/pause", response_model=RunOut)
def pause_run(context: ContextDep, run_id: str) -> Run:
    """Put a run that waits or runs aside, until it is resumed from its last checkpoint."""
    return pausing.pause_run(context, run_id)


@router.post("/{run_id}/resume", response_model=RunOut)
def resume_run(context: ContextDep, run_id: str) -> Run:
    """Have a paused run go on, when its turn comes."""
    return pausing.resume_run(context, run_id)


@router.post("/{run_id}/retry", response_model=RunOut)
def retry_run(context: ContextDep, run_id: str) -> Run:
    """Try a failed or cancelled run again: from its last checkpoint, or from the start where none is left."""
    return pausing.retry_run(context, run_id)


@router.post("/{run_id}/move", response_model=RunOut)
def move_run(context: ContextDep, run_id: str, move: Move) -> Run:
    """Move a queued run before or behind the others that wait."""
    return turns.move_run(context, run_id, move.to)


@router.put("/{run_id}/priority", response_model=RunOut)
def set_priority(context: ContextDep, run_id: str, priority: PriorityIn) -> Run:
    """Give a run that has not ended its number: of waiting runs those with lower ones go first."""
    return turns.set_run_priority(context, run_id, priority.priority)
