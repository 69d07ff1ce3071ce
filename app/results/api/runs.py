"""Runs over the API: search, read, describe, steer, delete, and log them from scripts."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import AliasPath, BaseModel, Field, ModelWrapValidatorHandler, model_validator

from app.context import Context
from app.db.learning import divergence_note, no_learning_note
from app.db.models import AttemptOutcome, FailureCause, Run, RunStatus, Split
from app.db.reported_config import AnyRunConfig
from app.db.run_results import RunResults
from app.results import logged_predictions, logged_runs
from app.results.logged_config import ScriptRun
from app.results.logged_predictions import LoggedPredictions
from app.results.logged_runs import LoggedEnding, LoggedSteps
from app.results.run_data import PredictionTable, get_activation, get_model, get_predictions
from app.results.search import listing
from app.results.search.listing import RunQuery
from app.training import experiments, queue_verbs, run_actions
from app.training.api.queue import Move, PriorityIn, RunState
from app.training.relaunch import request_of_run
from app.training.sweeps import SweepRequest
from app.web.dependencies import TOTAL, ContextDep, PagingDep, Row
from app.web.responses import FILE_RESPONSE, attachment_headers, download_response
from isoscope.files.strict import Strict


class RunSummary(RunState):
    """A run in a list."""

    error: str | None
    cause: FailureCause | None
    performance: float | None
    performance_reason: str | None
    isoscore_star: float | None
    isoscore_star_reason: str | None
    finished_at: datetime | None = Field(description="When it ended or was paused.")
    seconds: float | None = Field(description="Seconds of work since it last started at step 0.")
    setting: dict[str, Any] = Field(description="The run's values of the fields in the experiment's grid.")
    learned_nothing: str | None = Field(
        None,
        description="Why the run learned nothing: it is not better than the trivial predictor, or predicts the same "
        "for every row. Null if it learned, or if that is unknown.",
    )
    diverged: str | None = Field(None, description="How training diverged. Null if it did not, or if that is unknown.")

    @model_validator(mode="wrap")
    @classmethod
    def _add_judgements(cls, row: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        summary = validate(row)
        if isinstance(row, Run):
            summary.learned_nothing, summary.diverged = no_learning_note(row), divergence_note(row)
        return summary


class StepOut(Row):
    """Losses and measures of one optimizer step."""

    step: int
    task_loss: float | None
    penalty: float | None
    layers: dict[str, list[float | None]] | None


class AttemptOut(Row):
    """One process that worked on a run, and how it ended."""

    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None = Field(description="Null while running. For a lost worker: its last heartbeat.")
    seconds: float = Field(description="Seconds it worked, by a monotonic clock.")
    outcome: AttemptOutcome | None
    detail: str | None = Field(description="The signal, exit code or error it ended with.")
    first_step: int | None = Field(description="Step it resumed from, 0 from the start; null if it never trained.")
    last_step: int | None = Field(description="Its last step that was logged or saved.")
    peak_bytes: int | None = Field(description="Its most memory, of its GPU if it has one. Null before it trains.")


class RunOut(RunSummary):
    """A run with its configuration, results, environment and logged steps."""

    experiment_id: str
    tags: Annotated[list[str], Field(validation_alias="tag_names")]
    config: AnyRunConfig
    results: RunResults | None
    notes: list[str]
    log: str | None
    error_field: str | None
    model_sha256: str | None
    environment: dict[str, Any] | None
    attempts: list[AttemptOut] = Field(validation_alias="timeline", description="Oldest first.")
    steps: list[StepOut]


class ScriptRunOut(Row):
    """The progress of a run that a script logs."""

    id: str
    experiment_id: str
    status: RunStatus
    phase_done: int = Field(description="The last step that was logged.")
    phase_total: int | None = Field(description="Total number of steps; null if the script did not give it.")


class PredictionOut(BaseModel):
    """A prediction for one row."""

    row: int = Field(description="Position in the validation rows, from 0.")
    reference: int | float | str | None = Field(description="True class or number; null for answers.")
    predicted: int | float | str = Field(description="Predicted class, number or answer.")
    exact_match: float | None = Field(description="For answers: 1 if it matches exactly, else 0.")
    f1: float | None = Field(description="For answers: F1 of its words.")


class ActivationOut(BaseModel):
    """Sentence vectors of a trained model's last layer, dimension by dimension."""

    n: int
    mean: list[float]
    std: list[float]


class FoundRunOut(RunSummary):
    """A run in a search result, with its experiment and data set."""

    experiment_id: str
    experiment: str = Field(validation_alias=AliasPath("experiment", "name"), description="Name of its experiment.")
    dataset_id: str = Field(validation_alias=AliasPath("experiment", "dataset_id"))
    dataset: str = Field(
        validation_alias=AliasPath("experiment", "dataset", "name"), description="Name of its data set."
    )
    model: str
    metric: str = Field(validation_alias=AliasPath("config", "metric"), description="Metric of its performance.")
    tags: Annotated[list[str], Field(validation_alias="tag_names")]


def csv_response(predictions: PredictionTable) -> StreamingResponse:
    """Return predictions as a CSV file, sent while it is written."""
    headers = attachment_headers(f"predictions-{predictions.run.id}.csv")
    return StreamingResponse(predictions.csv(), media_type="text/csv; charset=utf-8", headers=headers)


router = APIRouter(prefix="/runs", tags=["runs"])

RunsQ = Annotated[
    str,
    Query(
        description="Words in the name of the experiment, data set or model, and conditions. All must hold: "
        "`task:cola lam<0 iso>0.2 seed:0,1 -status:failed`. An unknown field is refused with the list of known fields."
    ),
]
RunsSort = Annotated[str, Query(description="Field to sort by. A leading minus sorts descending.")]


@router.get("", response_model=list[FoundRunOut], responses=TOTAL)
def list_runs(context: ContextDep, paging: PagingDep, q: RunsQ = "", sort: RunsSort = "") -> list[Run]:
    """Runs of all experiments, newest experiments first by default. `X-Total-Count` has the number of all matches."""
    page = listing.list_runs(context, RunQuery.parse(q, sort), limit=paging.limit, offset=paging.offset)
    paging.set_total(page.total)
    return page.runs


# Documents responses with a page of rows and their total, or a CSV file of all rows.
TOTAL_OR_CSV: dict[int | str, dict[str, Any]] = {
    200: {**TOTAL[200], "content": {"text/csv": {"schema": {"type": "string"}}}}
}


@router.post("", status_code=201, response_model=ScriptRunOut)
def begin_run(context: ContextDep, request: ScriptRun) -> Run:
    """Begin a run of your own training loop. It is shown while its steps are logged."""
    return logged_runs.begin_run(context, request)


@router.post("/{run_id}/steps", response_model=ScriptRunOut)
def log_steps(context: ContextDep, run_id: str, request: LoggedSteps) -> Run:
    """Log steps of a script's run. A step that is logged again takes the new values. 409: it has ended."""
    return logged_runs.log_steps(context, run_id, request)


@router.post("/{run_id}/predictions", response_model=ScriptRunOut)
def log_predictions(context: ContextDep, run_id: str, request: LoggedPredictions) -> Run:
    """Log predictions of a script's run for validation rows, up to 10,000 at once. 409: it has ended."""
    return logged_predictions.log_predictions(context, run_id, request)


@router.post("/{run_id}/finish", response_model=ScriptRunOut)
def finish_run(context: ContextDep, run_id: str, ending: LoggedEnding) -> Run:
    """End a script's run with its metrics or an error."""
    return logged_runs.finish_run(context, run_id, ending)


@router.get("/{run_id}", response_model=RunOut)
def show_run(context: ContextDep, run_id: str) -> Run:
    """One run with its configuration, results, environment and logged steps."""
    return experiments.get_run(context, run_id)


class RunTags(Strict):
    """The tags of a run."""

    tags: list[str] = Field(description="All its tags: at most 20 of at most 40 characters, without commas.")


@router.patch("/{run_id}", response_model=RunOut)
def describe_run(context: ContextDep, run_id: str, request: RunTags) -> Run:
    """Replace the tags of a run."""
    return run_actions.tag_run(context, run_id, request.tags)


@router.delete("/{run_id}", status_code=204)
def delete_run(context: ContextDep, run_id: str) -> None:
    """Delete a run that has ended. 409: its search is running, its test scores are open, or it is the last run."""
    run_actions.delete_run(context, run_id)


@router.get("/{run_id}/request")
def show_request(context: ContextDep, run_id: str) -> SweepRequest:
    """The request that launches this run again with its baseline, for `POST /api/experiments`."""
    return request_of_run(experiments.get_run(context, run_id))


@router.get("/{run_id}/model", **FILE_RESPONSE)
def download_model(context: ContextDep, run_id: str) -> FileResponse:
    """The trained model of a run with the option `export`: a zip file of weights, tokenizer and model card."""
    return download_response(get_model(context, run_id))


@router.get("/{run_id}/activation", response_model=ActivationOut)
def show_activation(context: ContextDep, run_id: str) -> dict[str, Any]:
    """Mean and standard deviation of each dimension of the trained model's sentence vectors, on the validation rows."""
    return get_activation(context, run_id)


@router.get("/{run_id}/predictions", response_model=list[PredictionOut], responses=TOTAL_OR_CSV)
def list_predictions(
    context: ContextDep,
    paging: PagingDep,
    run_id: str,
    format: Annotated[  # noqa: A002 - the name in the URL
        Literal["json", "csv"], Query(description="JSON is one page of rows; CSV is a file of all of them.")
    ] = "json",
    split: Annotated[Split, Query(description="`test`: 409 until the experiment's test scores are opened.")] = (
        Split.VALIDATION
    ),
) -> Response | list[dict[str, Any]]:
    """Predictions of a finished run for a split, with the references. `X-Total-Count` has the number of rows."""
    predictions = get_predictions(context, run_id, split)
    if format == "csv":
        return csv_response(predictions)
    paging.set_total(len(predictions.predictions))
    return [row._asdict() for row in predictions.rows(paging.offset, paging.offset + paging.limit)]


def _command_endpoint(command: Callable[[Context, str], Run]) -> Callable[..., Run]:
    def endpoint(context: ContextDep, run_id: str) -> Run:
        return command(context, run_id)

    return endpoint


# The pages have a button for each command.
RUN_COMMANDS: Mapping[str, tuple[Callable[[Context, str], Run], str]] = {
    "cancel": (experiments.cancel_run, "Cancel a run that has not ended."),
    "pause": (queue_verbs.pause_run, "Pause a queued or running run until it is resumed from its last checkpoint."),
    "resume": (queue_verbs.resume_run, "Resume a paused run when its turn comes."),
    "retry": (
        queue_verbs.retry_run,
        "Retry a failed or cancelled run: from its last checkpoint, or from the start where none is left.",
    ),
}
for _verb, (_command, _description) in RUN_COMMANDS.items():
    router.post(f"/{{run_id}}/{_verb}", response_model=RunOut, name=f"{_verb}_run", description=_description)(
        _command_endpoint(_command)
    )


@router.post("/{run_id}/move", response_model=RunOut)
def move_run(context: ContextDep, run_id: str, move: Move) -> Run:
    """Move a queued run in the queue."""
    return queue_verbs.move_run(context, run_id, move.to)


@router.put("/{run_id}/priority", response_model=RunOut)
def set_priority(context: ContextDep, run_id: str, priority: PriorityIn) -> Run:
    """Set the priority of an unfinished run. Waiting runs with lower numbers start first."""
    return queue_verbs.set_run_priority(context, run_id, priority.priority)
