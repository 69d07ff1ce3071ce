"""Advice on failed runs, and launch forms filled in from an earlier launch."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.context import Context
from app.db.models import AttemptOutcome, Dataset, DatasetOrigin, FailureCause, Run, RunStatus
from app.training.experiments import StudyRequest, get_experiment, get_run
from app.training.relaunch import LaunchRequest, request_of, request_of_run
from app.training.sweep_form import LABELS, FormValues, to_form_values, unsupported_grid_error
from app.training.sweeps import SweepRequest
from isoscope.core.errors import InvalidError


class Advice(NamedTuple):
    """Title and remedy of a kind of failure."""

    title: str
    remedy: str
    field: str | None = None
    """The form field to change, unless the failure names another."""


ADVICE = {
    FailureCause.MEMORY: Advice(
        "Memory ran out",
        "Halve the batch and double the accumulation, which keeps the rows per step. Or lower Max length, choose a "
        "smaller model, or turn on gradient checkpointing.",
        "batch_size",
    ),
    FailureCause.MODEL: Advice(
        "The model could not be loaded",
        "Choose a model that is on the worker’s machine, or put its files there. The Hub’s models that need a license "
        "need a token in the worker’s environment.",
        "model",
    ),
    FailureCause.COLUMN: Advice(
        "The data do not fit", "Choose other columns, or fix the file and upload it again.", "label_column"
    ),
    FailureCause.NOT_A_NUMBER: Advice(
        "The loss is not a number",
        "Lower the learning rate or the size of λ, let the rate warm up, or train in float32.",
        "learning_rate",
    ),
    FailureCause.KILLED: Advice(
        "Its process was killed repeatedly",
        "Usually the system killed it for taking too much memory: halve the batch, or choose a smaller model. If the "
        "machine was restarted, try it again unchanged.",
        "batch_size",
    ),
    FailureCause.DATABASE: Advice(
        "The database was unavailable", "The run itself is fine. Try it again when the database responds."
    ),
    FailureCause.DISK: Advice(
        "The disk of its worker is full",
        "The run itself is fine. Free some space on the worker’s machine, then try it again.",
    ),
    FailureCause.SETTING: Advice("A setting cannot be used", "Change the setting named above."),
    FailureCause.UNSPECIFIED: Advice(
        "An unexpected failure", "The last lines of its log, below, show where. Try again, or change the settings."
    ),
}

SCRIPT_ADVICE = Advice("Its script gave this run up", "Isoscope knows only its message.")


def find_advice(run: Run) -> Advice:
    if run.experiment.logged:
        return SCRIPT_ADVICE
    advice = ADVICE[run.cause or FailureCause.UNSPECIFIED]
    return advice._replace(field=run.error_field if run.error_field in LABELS else advice.field)


# Texts of outcomes whose values do not say what happened.
OUTCOME_TEXTS = {AttemptOutcome.KILLED: "process ended", AttemptOutcome.DATABASE_AWAY: "database did not answer"}


class PrefilledForm(NamedTuple):
    """A launch form filled in from an earlier launch, and the error shown at the field that must be changed."""

    values: FormValues
    problem: InvalidError | None = None
    search: Mapping[str, Any] = {}
    """The ranges of a search; empty for a sweep."""


def prefill_form(context: Context, run_id: str | None, experiment_id: str | None) -> PrefilledForm:
    """Return the form that launches a run again, else an experiment; empty without both ids."""
    if run_id:
        run = get_run(context, run_id)
        values = _form_values(request_of_run(run), run.experiment.dataset)
        if run.status is not RunStatus.FAILED:
            return PrefilledForm(values, _launch_problem(run.experiment.dataset))
        values |= {"name": run.experiment.name}  # the failed run has no results, so its name can be reused
        sentence = f"The run failed: {run.error}"
        batch_size, accumulation = (
            int(text) if text.isdecimal() else 0 for text in (str(values["batch_size"]), str(values["accumulation"]))
        )
        if run.cause is FailureCause.MEMORY and batch_size >= 2 and batch_size % 2 == 0:
            values |= {"batch_size": str(batch_size // 2), "accumulation": str(2 * max(accumulation, 1))}
            sentence += f" The form starts with a batch of {batch_size // 2} instead of {batch_size}."
        return PrefilledForm(values, InvalidError(sentence, find_advice(run).field))
    if experiment_id:
        experiment = get_experiment(context, experiment_id)
        request = request_of(experiment)
        search = request.search.model_dump(mode="json") if isinstance(request, StudyRequest) else {}
        problem = _launch_problem(experiment.dataset, request)
        return PrefilledForm(_form_values(request, experiment.dataset), problem, search)
    return PrefilledForm({})


def _form_values(request: LaunchRequest, dataset: Dataset) -> FormValues:
    excluded = {"name", "search"} | ({"dataset_id"} if dataset.origin is DatasetOrigin.BY_NAME else set())
    return to_form_values(request.model_dump(mode="json", exclude=excluded)) | {"preset": ""}


def _launch_problem(dataset: Dataset, request: LaunchRequest | None = None) -> InvalidError | None:
    if dataset.origin is DatasetOrigin.BY_NAME:
        return InvalidError(
            f"The rows of {dataset.name} are not on this dashboard. Choose a data set whose rows are.", "dataset_id"
        )
    if isinstance(request, SweepRequest) and "fixed_regularizers" in request.grid:
        return unsupported_grid_error()
    return None
