"""Experiments: launch a sweep, look at it, stop it."""

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, defer, immediateload, joinedload, raiseload, selectinload

from app.context import Context
from app.db import job_kinds
from app.db.models import Experiment, Run
from app.db.removal import remove_experiment
from app.db.session import hold
from app.db.types import utcnow
from app.queue import Job
from app.services.names import clean_name
from app.services.room import freeing
from app.services.runs import mark_cancelled
from app.services.sweeps import SweepPlan, SweepRequest, plan_sweep
from isoscope.core.errors import ConflictError, NotFoundError
from isoscope.core.formatting import plural

NEWEST_FIRST = (Experiment.created_at.desc(), Experiment.id)
IN_A_LIST = tuple(defer(column, raiseload=True) for column in (Run.results, Run.environment, Run.log, Run.notes))
"""What a list of runs leaves unread: large, and told by the page of each."""


def create_experiment(context: Context, request: SweepRequest) -> Experiment:
    """Write the experiment and its runs, then hand the runs to the workers."""
    plan = plan_sweep(context, request)
    context.require_room()
    with context.sessions.begin() as session:
        experiment = Experiment(
            name=clean_name(request.name, f"{_models(plan)} on {plan.dataset.name}"),
            dataset_id=plan.dataset.id,
            config=plan.config,
            grid=plan.grid,
            runs=[
                Run(
                    position=position,
                    config=config,
                    regularizer=config.regularizer,
                    lam=config.lam,
                    zeta=config.zeta,
                    seed=config.seed,
                )
                for position, config in enumerate(plan.runs)
            ],
        )
        session.add(experiment)
    return get_experiment(context, experiment.id)


def _models(plan: SweepPlan) -> str:
    names = plan.grid.get("model", [plan.config.model])
    return names[0] if len(names) == 1 else plural(len(names), "model")


def list_names(context: Context, most: int) -> dict[str, str]:
    """Names of the newest experiments by their ids."""
    newest = select(Experiment.id, Experiment.name).order_by(*NEWEST_FIRST).limit(most)
    with context.sessions() as session:
        return dict(session.execute(newest).all())


def newest_experiment(context: Context) -> Experiment | None:
    """The one that was launched last, if there is any."""
    with context.sessions() as session:
        return session.scalar(_loaded(select(Experiment).order_by(*NEWEST_FIRST).limit(1)))


def get_experiment(context: Context, experiment_id: str) -> Experiment:
    """One experiment with its data set and its runs in the order they were planned."""
    with context.sessions() as session:
        return _find(session, experiment_id)


def get_experiment_alone(context: Context, experiment_id: str) -> Experiment:
    """One experiment with its data set, without its runs, of which there may be many."""
    with context.sessions() as session:
        alone = select(Experiment).options(joinedload(Experiment.dataset), raiseload(Experiment.runs))
        return _only(session.scalar(alone.where(Experiment.id == experiment_id)), experiment_id)


@freeing
def cancel_experiment(context: Context, experiment_id: str) -> Experiment:
    """Cancel every run that has not ended; none left is no error."""
    with context.sessions.begin() as session:
        hold(session.connection(), f"study {experiment_id}")  # or a worker might add runs that are not cancelled
        experiment = _find(session, experiment_id)
        stopped = mark_cancelled(session, [run.id for run in experiment.runs])
        if experiment.study is not None and not experiment.study.over:
            experiment.study = experiment.study.model_copy(update={"over": True, "why": "It was cancelled."})
    if stopped:
        context.queue.cancel(*(Job(job_kinds.FINETUNE, run_id) for run_id in stopped))
    return get_experiment(context, experiment_id)


@freeing
def delete_experiment(context: Context, experiment_id: str) -> None:
    """Delete an experiment whose runs have all ended, and the models that they kept.

    It is hidden at once, and its rows go in short transactions, so that workers write meanwhile.
    """
    with context.sessions.begin() as session:
        hold(session.connection(), f"study {experiment_id}")
        # Nobody adds a run to it from here on: whoever does waits, and then finds it gone.
        session.get(Experiment, experiment_id, with_for_update=True)
        experiment = _find(session, experiment_id)
        if experiment.searching:
            raise ConflictError("Its search is still running. Cancel the search before deleting the experiment.")
        if left := sum(not run.status.final for run in experiment.runs):
            raise ConflictError(f"{left} of its runs have not ended; cancel them before deleting the experiment.")
        experiment.removed_at = utcnow()
    remove_experiment(context.sessions, experiment_id)
    context.queue.forget([Job(job_kinds.FINETUNE, run.id) for run in experiment.runs])
    context.ledger.release(*(run.model_sha256 for run in experiment.runs))


def _find(session: Session, experiment_id: str) -> Experiment:
    return _only(session.scalar(_loaded(select(Experiment).where(Experiment.id == experiment_id))), experiment_id)


def _only(experiment: Experiment | None, experiment_id: str) -> Experiment:
    if experiment is None:
        raise NotFoundError(f"There is no experiment {experiment_id!r}; it may have been deleted.")
    return experiment


def _loaded(wanted: Select[Experiment]) -> Select[Experiment]:
    """With its data set and its runs, but for what is large and told by the page of each."""
    # That of each run is the one at hand, so immediateload finds it without a query.
    runs = selectinload(Experiment.runs).options(*IN_A_LIST, immediateload(Run.experiment))
    return wanted.options(joinedload(Experiment.dataset), runs)
