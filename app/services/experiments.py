"""Experiments: plan a sweep, launch it, look at it, stop it."""

from collections import Counter
from typing import NamedTuple

from pydantic import Field, FiniteFloat
from sqlalchemy import Select, select
from sqlalchemy.orm import Session, defer, joinedload, selectinload

from app.context import Context
from app.db.config import RunConfig, Seed, TrainingConfig, TrainingOptions
from app.db.models import UNFINISHED, Dataset, Experiment, Run
from app.db.penalty import Regularizer
from app.db.types import RowId
from app.errors import ConflictError, InvalidError, NotFoundError
from app.formats.labels import check_text_columns, label_values
from app.formats.tables import Column
from app.queue import DEFAULT_PRIORITY, Job, JobKind
from app.services.datasets import find_dataset
from app.services.models import ModelChoice, require_model
from app.services.names import clean_name
from app.services.runs import mark_cancelled

MAX_RUNS = 500
NEWEST_FIRST = (Experiment.created_at.desc(), Experiment.id)
IN_A_LIST = tuple(defer(column, raiseload=True) for column in (Run.results, Run.environment, Run.log, Run.notes))
"""What a list of runs leaves unread: large, and told by the page of each."""


class SweepRequest(TrainingOptions):
    """What a user asks for: a configuration, and the values that its runs differ in."""

    name: str | None = Field(None, max_length=200)
    dataset_id: RowId
    regularizer: Regularizer = Regularizer.ISTAR
    lambdas: list[FiniteFloat] = Field([-1.0, 0.0, 1.0], min_length=1, max_length=100)
    zeta: FiniteFloat = Field(0.2, ge=0, le=1)
    seeds: list[Seed] = Field([0], min_length=1, max_length=100)


class SweepPlan(NamedTuple):
    """The runs that a request means, before any is made."""

    dataset: Dataset
    config: TrainingConfig
    runs: list[RunConfig]
    notes: list[str]


def plan_sweep(context: Context, request: SweepRequest, *, ask_hub: bool = True) -> SweepPlan:
    """Check a request against its data set and model, and list its runs.

    To compare with, every seed gets a run at lambda = 0, which is training without a regularizer.
    Raises InvalidError at the field that is wrong.
    """
    with context.sessions() as session:
        dataset = find_dataset(session, request.dataset_id)
    names = _check_columns(dataset, request)
    _check_layers(require_model(context.settings, request.model, ask_hub=ask_hub), request)
    shared = request.model_dump(include=set(TrainingOptions.model_fields)) | {"label_names": names}
    config = TrainingConfig.model_validate(shared)
    wanted = set(request.lambdas) if request.regularizer is not Regularizer.NONE else set()
    runs = [
        RunConfig(
            **config.model_dump(),
            regularizer=request.regularizer if lam else Regularizer.NONE,
            lam=lam,
            zeta=request.zeta,
            seed=seed,
        )
        for seed in dict.fromkeys(request.seeds)
        for lam in sorted(wanted | {0.0})
    ]
    if len(runs) > MAX_RUNS:
        raise InvalidError(
            f"Expected at most {MAX_RUNS} runs in one experiment, got {len(runs)}. Take fewer lambdas or fewer seeds.",
            "lambdas",
        )
    notes = [] if 0.0 in wanted else ["The λ = 0 baseline was added, one run for each seed."]
    return SweepPlan(dataset, config, runs, notes)


def create_experiment(context: Context, request: SweepRequest) -> Experiment:
    """Write the experiment and its runs, then hand the runs to the workers."""
    plan = plan_sweep(context, request)
    with context.sessions.begin() as session:
        experiment = Experiment(
            name=clean_name(request.name, f"{request.model} on {plan.dataset.name}"),
            dataset_id=plan.dataset.id,
            config=plan.config.model_dump(mode="json"),
            runs=[
                Run(
                    position=position,
                    config=config.model_dump(mode="json"),
                    regularizer=config.regularizer,
                    lam=config.lam,
                    zeta=config.zeta,
                    seed=config.seed,
                )
                for position, config in enumerate(plan.runs)
            ],
        )
        session.add(experiment)
    for run in experiment.runs:
        context.queue.enqueue(Job(JobKind.FINETUNE, run.id), DEFAULT_PRIORITY)
    return get_experiment(context, experiment.id)


def list_experiments(context: Context) -> list[Experiment]:
    """All experiments, newest first, with their data sets and what a list tells of their runs."""
    newest = select(Experiment).order_by(*NEWEST_FIRST)
    runs = selectinload(Experiment.runs).options(*IN_A_LIST, defer(Run.config, raiseload=True))
    loaded = newest.options(joinedload(Experiment.dataset), runs)
    with context.sessions() as session:
        return list(session.scalars(loaded))


def newest_experiment(context: Context) -> Experiment | None:
    """The one that was launched last, if there is any."""
    with context.sessions() as session:
        return session.scalar(_loaded(select(Experiment).order_by(*NEWEST_FIRST).limit(1)))


def get_experiment(context: Context, experiment_id: str) -> Experiment:
    """One experiment with its data set and its runs in the order they were planned."""
    with context.sessions() as session:
        return _find(session, experiment_id)


def cancel_experiment(context: Context, experiment_id: str) -> Experiment:
    """Cancel every run that has not ended; none left is no error."""
    with context.sessions.begin() as session:
        experiment = _find(session, experiment_id)
        stopped = mark_cancelled(session, [run.id for run in experiment.runs])
    for run_id in stopped:
        context.queue.cancel(Job(JobKind.FINETUNE, run_id))
    return get_experiment(context, experiment_id)


def delete_experiment(context: Context, experiment_id: str) -> None:
    """Delete an experiment whose runs have all ended."""
    with context.sessions.begin() as session:
        experiment = _find(session, experiment_id)
        counts = Counter(run.status for run in experiment.runs)
        if left := sum(counts[status] for status in UNFINISHED):
            raise ConflictError(f"{left} of its runs wait or run; cancel them before deleting the experiment.")
        session.delete(experiment)
    context.queue.forget([Job(JobKind.FINETUNE, run.id) for run in experiment.runs])


def _find(session: Session, experiment_id: str) -> Experiment:
    experiment = session.scalar(_loaded(select(Experiment).where(Experiment.id == experiment_id)))
    if experiment is None:
        raise NotFoundError(f"There is no experiment {experiment_id!r}; it may have been deleted.")
    return experiment


def _loaded(wanted: Select[Experiment]) -> Select[Experiment]:
    """With its data set and its runs, but for what is large and told by the page of each."""
    return wanted.options(joinedload(Experiment.dataset), selectinload(Experiment.runs).options(*IN_A_LIST))


def _check_columns(dataset: Dataset, request: SweepRequest) -> list[str]:
    """The label names of a request whose columns all exist and fit."""
    columns = [Column.model_validate(column) for column in dataset.columns]
    check_text_columns(columns, request.text_columns)
    if request.label_column in request.text_columns:
        raise InvalidError(
            f"The label column {request.label_column!r} is also a text column: the model would read the answer. "
            "Choose another.",
            "label_column",
        )
    return label_values(columns, request.label_column)


def _check_layers(model: ModelChoice, request: SweepRequest) -> None:
    chosen = request.layers if isinstance(request.layers, list) else []
    beyond = [layer for layer in chosen if model.layers is not None and layer > model.layers]
    if beyond:
        raise InvalidError(
            f"Expected layers from 1 to {model.layers}, which is what {model.name} has, got {beyond[0]}.",
            "layers",
        )
