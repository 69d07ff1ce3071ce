"""Tag and delete a run, and actions on several experiments or runs at once."""

from collections.abc import Sequence
from urllib.parse import parse_qsl, urlencode

from sqlalchemy import func, select
from sqlalchemy.orm import selectinload

from app.context import Context, makes_room
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Experiment, Opening, Run
from app.db.options.regularization import describe_regularizer
from app.db.session import OPENINGS_LOCK, acquire_locks, study_lock
from app.descriptions.row_list import RowAction, RowList
from app.descriptions.service import set_tags
from app.training import experiments
from app.training.queue_verbs import retry_experiment, retry_run
from isoscope.core.errors import ConflictError


def tag_run(context: Context, run_id: str, tags: Sequence[str]) -> Run:
    with context.sessions.begin() as session:
        run = session.get(Run, run_id, options=[selectinload(Run.tags)])
        if run is None:
            raise experiments.run_not_found(run_id)
        set_tags(run, tags)
    return experiments.get_run(context, run_id)


@makes_room
def delete_run(context: Context, run_id: str) -> None:
    """Delete an ended run, unless its search is running, its test scores are open, or it is the only run."""
    experiment_id = experiments.get_run(context, run_id).experiment_id
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), study_lock(experiment_id), OPENINGS_LOCK)
        # Lock the experiment, so that of two concurrent deletions the second sees the first.
        experiment = session.get(Experiment, experiment_id, with_for_update=True)
        run = session.get(Run, run_id)
        if experiment is None or run is None:
            raise experiments.run_not_found(run_id)
        if not run.status.final:
            raise ConflictError(f"This run is {run.status}. Cancel it before you delete it.")
        if experiment.searching:
            raise ConflictError("Its search is still running and learns from this run. Cancel the search first.")
        if session.scalar(select(Opening.id).where(Opening.experiment_id == experiment_id).limit(1)):
            raise ConflictError("The test scores of its experiment are open, so its runs cannot be deleted.")
        if session.scalar(select(func.count(Run.id)).where(Run.experiment_id == experiment_id)) == 1:
            raise ConflictError("This is the only run of its experiment. Delete the experiment instead.")
        model_sha256 = run.model_sha256
        session.delete(run)
    context.queue.delete_records([Job(job_kinds.FINETUNE, run_id)])
    context.ledger.release(model_sha256)


def get_run_name(context: Context, run_id: str) -> str:
    run = experiments.get_run(context, run_id)
    return f"{describe_regularizer(run.regularizer, run.lam)}, seed {run.seed}, of {run.experiment.name}"


def get_runs_address(query: str) -> str:
    """Return the address of the list of runs of the experiment in a query string; of all runs if it names none."""
    parameters = dict(parse_qsl(query))
    experiment_id = parameters.pop("experiment", "")
    encoded = urlencode(({"tab": "runs"} if experiment_id else {}) | parameters)
    # An id in the path must not hold a slash.
    path = f"/experiments/{experiment_id}" if experiment_id.isalnum() else "/compare/runs/list"
    return f"{path}?{encoded}" if encoded else path


RUNS = RowList(
    path="/runs",
    title="Runs",
    section="experiments",
    field="run",
    actions={
        "cancel": RowAction("Cancel", experiments.cancel_run),
        "retry": RowAction("Retry", retry_run),
        "delete": RowAction(
            "Delete",
            delete_run,
            warning="This deletes their curves, predictions and results. Tables and conclusions of their experiment "
            "no longer count them. It cannot be undone.",
        ),
    },
    get_name=get_run_name,
    get_address=get_runs_address,
)

EXPERIMENTS = RowList(
    path="/experiments",
    title="Experiments",
    section="experiments",
    field="experiment",
    actions={
        "cancel": RowAction("Cancel", experiments.cancel_experiment),
        "retry": RowAction("Retry failed runs", retry_experiment),
        "delete": RowAction(
            "Delete",
            experiments.delete_experiment,
            warning="This deletes all their runs, curves and results. Data sets stay. It cannot be undone.",
        ),
    },
    get_name=lambda context, experiment_id: experiments.get_experiment(context, experiment_id).name,
)
