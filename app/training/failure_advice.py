"""A failed run in words: what kind of failure it was, what to do, and the form in which that is done already."""

from typing import Any, NamedTuple

from app.db.models import AttemptOutcome, FailureCause, Run
from app.routes.pages.sweep_form import LABELS, Values
from isoscope.core.errors import InvalidError


class Advice(NamedTuple):
    """What a kind of failure is called, and what to do about it."""

    title: str
    remedy: str
    field: str | None = None
    """The form's field to change, where the failure names none."""


ADVICE = {
    FailureCause.MEMORY: Advice(
        "Memory ran out",
        "Halve the batch and double the accumulation, which keeps the rows of a step; or cut texts earlier, take a "
        "smaller model, or train with gradient checkpointing.",
        "batch_size",
    ),
    FailureCause.MODEL: Advice(
        "The model could not be loaded",
        "Choose a model that is on the worker’s machine, or put its files there. The Hub’s models that need a licence "
        "need a token in the worker’s environment.",
        "model",
    ),
    FailureCause.COLUMN: Advice(
        "The data do not fit",
        "Choose other columns, or mend the file and upload it again.",
        "label_column",
    ),
    FailureCause.NOT_A_NUMBER: Advice(
        "The loss is not a number",
        "Lower the learning rate or the size of λ, let the rate warm up, or train in float32.",
        "learning_rate",
    ),
    FailureCause.KILLED: Advice(
        "Its process was killed again and again",
        "Most often the system ends what takes too much memory: halve the batch, or take a smaller model. If the "
        "machine was restarted, try it again as it is.",
        "batch_size",
    ),
    FailureCause.DATABASE: Advice(
        "The database was away",
        "Nothing is wrong with the run: when the database answers again, try it again as it is.",
    ),
    FailureCause.DISK: Advice(
        "The disk of its worker is full",
        "Nothing is wrong with the run. Free some space on the worker’s machine, then try it again as it is.",
    ),
    FailureCause.SETTING: Advice("A setting cannot be used", "Change the setting that the sentence names."),
    FailureCause.OTHER: Advice(
        "An unforeseen failure",
        "The last lines of its log, below, show where. Retry as is, or with changed settings.",
    ),
}

OF_A_SCRIPT = Advice("Its script gave this run up", "Its message is all that is known here.")


def advice_of(run: Run) -> Advice:
    """What to do about a failed run, with the field of the form at which that begins."""
    if run.experiment.logged:
        return OF_A_SCRIPT
    advice = ADVICE[run.cause or FailureCause.OTHER]
    return advice._replace(field=_field(run, advice))


def changed_for(run: Run, values: Values) -> Values:
    """The form's values with what is sure to help changed already: half the batch where memory ran out."""
    if run.cause is not FailureCause.MEMORY or (rows := _whole(values["batch_size"])) < 2 or rows % 2:
        return values
    return values | {"batch_size": str(rows // 2), "accumulation": str(2 * max(_whole(values["accumulation"]), 1))}


def problem_of(run: Run, before: Values, after: Values) -> InvalidError:
    """The sentence that stands in the form beside the field to change, or that is changed already."""
    told = f"The run failed: {run.error}"
    if before != after:
        told += f" Filled in is a batch of {after['batch_size']} instead of {before['batch_size']}."
    return InvalidError(told, advice_of(run).field)


def _field(run: Run, advice: Advice) -> str | None:
    return run.error_field if run.error_field in LABELS else advice.field


def _whole(text: Any) -> int:
    return int(text) if str(text).isdecimal() else 0


OUTCOMES = {
    AttemptOutcome.FINISHED: "finished",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.PRUNED: "pruned",
    AttemptOutcome.CANCELLED: "cancelled",
    AttemptOutcome.PAUSED: "paused",
    AttemptOutcome.KILLED: "process ended",
    AttemptOutcome.WORKER_LOST: "worker lost",
    AttemptOutcome.WORKER_STOPPED: "worker stopped",
    AttemptOutcome.DATABASE_AWAY: "database did not answer",
    AttemptOutcome.DISK_FULL: "disk full",
}
