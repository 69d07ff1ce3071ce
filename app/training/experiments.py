"""Launch, read, cancel and delete experiments and runs."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session, defer, joinedload, raiseload, selectinload
from sqlalchemy.orm.attributes import set_committed_value

from app.context import Context, makes_room, not_found
from app.core.names import clean_name
from app.db import job_kinds
from app.db.config import RunConfig, Seed, TrainingOptions, option_applies
from app.db.job_kinds import Job
from app.db.models import FINAL, Attempt, AttemptOutcome, Experiment, Opening, Run, RunStatus
from app.db.options.measuring import Checkpoint
from app.db.options.option import Option, collect_options
from app.db.removal import remove_experiment
from app.db.reported_config import AnyRunConfig
from app.db.session import OPENINGS_LOCK, acquire_locks, study_lock
from app.db.study import BUDGET, SEARCH_SPACE, Search
from app.db.types import RowId, utcnow
from app.db.work import end_attempts
from app.descriptions.service import DescriptionChange, apply_description
from app.training.sweeps import MAX_RUNS, SweepPlan, SweepRequest, plan_sweep
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError
from isoscope.core.formatting import plural
from isotropy.catalog import Regularizer


def run_not_found(run_id: str) -> NotFoundError:
    return NotFoundError(f"There is no run {run_id!r}; it may have been deleted with its experiment.")


def get_run(context: Context, run_id: str) -> Run:
    with_dataset = joinedload(Run.experiment).joinedload(Experiment.dataset)
    with_lists = selectinload(Run.steps), selectinload(Run.timeline), selectinload(Run.tags)
    run = context.scalar(select(Run).where(Run.id == run_id).options(with_dataset, *with_lists))
    if run is None:
        raise run_not_found(run_id)
    return run


def require_changed(context: Context, run_id: str, changed: object, rule: str) -> Run:
    """Return a run; raise ConflictError unless ``changed``. ``rule`` says which runs can be changed, without "Only"."""
    run = get_run(context, run_id)
    if not changed:
        raise ConflictError(f"Only {rule}; this one is {run.status}.")
    return run


def find_baseline_config(context: Context, run: Run) -> AnyRunConfig | None:
    """Return the configuration of a baseline run, preferably of the same seed; None if the experiment has none."""
    query = select(Run.config).where(Run.experiment_id == run.experiment_id, Run.regularizer == Regularizer.NONE)
    return context.scalar(query.order_by(Run.seed != run.seed, Run.position).limit(1))


def cancel_run(context: Context, run_id: str) -> Run:
    with context.sessions.begin() as session:
        cancelled_ids = mark_cancelled(session, [run_id])
    run = require_changed(context, run_id, cancelled_ids, "a run that has not ended can be cancelled")
    context.queue.cancel(Job(job_kinds.FINETUNE, run_id))
    return run


def mark_cancelled(session: Session, run_ids: Iterable[str]) -> list[str]:
    """Cancel unfinished runs; return their ids. Do this before cancelling jobs, because trainers watch their row."""
    update_unfinished = update(Run).where(Run.id.in_(list(run_ids)), Run.status.not_in(FINAL))
    changes = {"status": RunStatus.CANCELLED, "finished_at": func.coalesce(Run.finished_at, utcnow())}
    ids = list(session.scalars(update_unfinished.values(changes).returning(Run.id)))
    end_attempts(session, Attempt.run_id.in_(ids), AttemptOutcome.CANCELLED)
    return ids


NEWEST_FIRST = (Experiment.created_at.desc(), Experiment.id)
WITH_DATASET_AND_TAGS = (joinedload(Experiment.dataset), selectinload(Experiment.tags))
"""Options that load the data set and the tags, which every page of an experiment shows."""
WITHOUT_LARGE_COLUMNS = tuple(
    defer(column, raiseload=True) for column in (Run.results, Run.environment, Run.log, Run.notes)
)
"""Options that skip large columns, which only a run's own page shows."""


def create_experiment(context: Context, request: SweepRequest) -> Experiment:
    plan = plan_sweep(context, request)
    models = plan.grid.get("model", [plan.config.model])
    model_words = models[0] if len(models) == 1 else plural(len(models), "model")
    name = clean_name(request.name, f"{model_words} on {plan.dataset.name}")
    return _add_experiment(context, name, plan, plan.runs, grid=plan.grid)


def _add_experiment(
    context: Context, name: str, plan: SweepPlan, configs: Iterable[RunConfig], **columns: Any
) -> Experiment:
    context.require_room()
    runs = [Run.from_config(position, config) for position, config in enumerate(configs)]
    with context.sessions.begin() as session:
        experiment = Experiment(name=name, dataset_id=plan.dataset.id, config=plan.config, runs=runs, **columns)
        session.add(experiment)
    return get_experiment(context, experiment.id)


def add_runs(context: Context, experiment_id: str, configs: Sequence[RunConfig]) -> Experiment:
    """Queue further runs of an experiment, as a new round of seeds.

    Raises ConflictError unless all runs have ended and the test scores are sealed, InvalidError for too many runs.
    """
    context.require_room()
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), study_lock(experiment_id), OPENINGS_LOCK)
        experiment = _load_experiment(session, experiment_id)
        if not experiment.ended:
            raise ConflictError("The experiment has not ended. Add seeds when all its runs have.")
        if session.scalar(select(Opening.id).where(Opening.experiment_id == experiment_id).limit(1)):
            raise ConflictError(
                "The experiment's test scores are open, so no seeds can be added. Launch another experiment."
            )
        if (total := len(experiment.runs) + len(configs)) > MAX_RUNS:
            raise InvalidError(
                f"Expected at most {MAX_RUNS} runs in one experiment, got {total}. Add fewer seeds.", "seeds"
            )
        seed_round = 1 + max(run.seed_round for run in experiment.runs)
        experiment.runs += [
            Run.from_config(position, config, seed_round=seed_round)
            for position, config in enumerate(configs, experiment.runs[-1].position + 1)
        ]
        experiment.notified_at = None
    return get_experiment(context, experiment_id)


def list_experiment_names(context: Context, limit: int) -> dict[str, str]:
    """Return names by experiment id, newest first."""
    newest = select(Experiment.id, Experiment.name).order_by(*NEWEST_FIRST).limit(limit)
    with context.sessions() as session:
        return dict(session.execute(newest).all())


def list_newest_ended(context: Context, limit: int) -> list[Experiment]:
    """Return the newest experiments that have results and no unfinished run."""
    has_results = Experiment.runs.any(Run.performance.is_not(None))
    ended = select(Experiment).where(has_results, ~Experiment.runs.any(Run.status.not_in(FINAL)))
    with context.sessions() as session:
        return _load_experiments(session, ended.order_by(*NEWEST_FIRST).limit(limit))


def get_experiment(context: Context, experiment_id: str) -> Experiment:
    with context.sessions() as session:
        return _load_experiment(session, experiment_id)


def get_experiment_without_runs(context: Context, experiment_id: str) -> Experiment:
    """Return an experiment without its tags and runs, because it may have thousands of runs."""
    query = select(Experiment).where(Experiment.id == experiment_id)
    load_options = joinedload(Experiment.dataset), raiseload(Experiment.tags), raiseload(Experiment.runs)
    return _require_experiment(context.scalar(query.options(*load_options)), experiment_id)


def describe_experiment(context: Context, experiment_id: str, change: DescriptionChange) -> Experiment:
    """Change name, notes or tags; None leaves a field as it is."""
    with context.sessions.begin() as session:
        apply_description(_require_experiment(session.get(Experiment, experiment_id), experiment_id), change)
    return get_experiment(context, experiment_id)


@makes_room
def cancel_experiment(context: Context, experiment_id: str) -> Experiment:
    with context.sessions.begin() as session:
        # Locked, because a worker might add runs that are not cancelled.
        acquire_locks(session.connection(), study_lock(experiment_id))
        experiment = _load_experiment(session, experiment_id)
        cancelled_ids = mark_cancelled(session, [run.id for run in experiment.runs])
        if experiment.study is not None and not experiment.study.over:
            experiment.study = experiment.study.model_copy(update={"over": True, "why": "It was cancelled."})
    context.queue.cancel(*(Job(job_kinds.FINETUNE, run_id) for run_id in cancelled_ids))
    return get_experiment(context, experiment_id)


@makes_room
def delete_experiment(context: Context, experiment_id: str) -> None:
    """Hide an ended experiment, then delete its rows in short transactions, so that workers can write in between."""
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), study_lock(experiment_id))
        # Lock the row, so that adding a run waits and then finds the experiment deleted.
        session.get(Experiment, experiment_id, with_for_update=True)
        experiment = _load_experiment(session, experiment_id)
        if experiment.searching:
            raise ConflictError("Its search is still running. Cancel the search before deleting the experiment.")
        if n_unfinished := sum(not run.status.final for run in experiment.runs):
            verb, pronoun = ("has", "it") if n_unfinished == 1 else ("have", "them")
            raise ConflictError(
                f"{n_unfinished} of its runs {verb} not ended. Cancel {pronoun} before deleting the experiment."
            )
        experiment.removed_at = utcnow()
    remove_experiment(context.sessions, experiment_id)
    context.queue.delete_records([Job(job_kinds.FINETUNE, run.id) for run in experiment.runs])
    context.ledger.release(*(run.model_sha256 for run in experiment.runs))


def _load_experiment(session: Session, experiment_id: str) -> Experiment:
    experiments = _load_experiments(session, select(Experiment).where(Experiment.id == experiment_id))
    return _require_experiment(experiments[0] if experiments else None, experiment_id)


def _require_experiment(experiment: Experiment | None, experiment_id: str) -> Experiment:
    if experiment is None:
        raise not_found("experiment", experiment_id)
    return experiment


def _load_experiments(session: Session, query: Select[Experiment]) -> list[Experiment]:
    runs = selectinload(Experiment.runs).options(*WITHOUT_LARGE_COLUMNS)
    experiments = list(session.scalars(query.options(*WITH_DATASET_AND_TAGS, runs)))
    for experiment in experiments:
        for run in experiment.runs:
            set_committed_value(run, "experiment", experiment)  # otherwise each run would query for it
    return experiments


SWEEP_OPTIONS = collect_options(SweepRequest)


class StudyRequest(TrainingOptions):
    """A configuration, and the ranges to search."""

    name: Annotated[str | None, Field(max_length=200), SWEEP_OPTIONS["name"]] = None
    dataset_id: Annotated[RowId, SWEEP_OPTIONS["dataset_id"]]
    seeds: Annotated[
        list[Seed],
        Field(min_length=1, max_length=20),
        Option("Seeds", "Seeds of every trial and of the baseline.", BUDGET, details=SWEEP_OPTIONS["seeds"].details),
    ] = Field([0])
    search: Annotated[Search, Option("Search", "Ranges in which the best λ and ζ are searched.", SEARCH_SPACE)] = Field(
        default_factory=Search
    )


def plan_study(context: Context, request: StudyRequest, *, ask_hub: bool = True) -> SweepPlan:
    """Check a search and plan a sweep of the two ends of its λ range. Its baseline runs are those of the search."""
    search = request.search
    seeds = list(dict.fromkeys(request.seeds))
    if (total := (search.trials + 1) * len(seeds)) > MAX_RUNS:
        raise InvalidError(
            f"Expected at most {MAX_RUNS} runs in one experiment, got {total}: {search.trials} trials and the "
            f"baseline, with {len(seeds)} seeds each. Take fewer.",
            "trials",
        )
    if search.prune and request.checkpoint is Checkpoint.LAST and request.patience is None:
        raise InvalidError(
            "Pruning needs evaluations on the selection rows. Choose the best checkpoint or a patience.", "prune"
        )
    if search.zeta_low < search.zeta_high and not option_applies("zeta", [search.regularizer], None):
        raise InvalidError(
            f"Expected one zeta for {search.regularizer}, which reads none, got a range. Make both ends the same.",
            "zeta_high",
        )
    swept_values = {
        "regularizers": [search.regularizer],
        "lambdas": [search.lam_low, search.lam_high],
        "zetas": [search.zeta_low],
        "seeds": seeds,
    }
    options = request.model_dump(include={*TrainingOptions.model_fields, "dataset_id"})
    return plan_sweep(context, SweepRequest.model_validate(options | swept_values), ask_hub=ask_hub)


def create_study(context: Context, request: StudyRequest) -> Experiment:
    """Create a search with its baseline runs. Workers add the trials."""
    plan = plan_study(context, request)
    name = clean_name(request.name, f"Search with {plan.config.model} on {plan.dataset.name}")
    baseline = [run for run in plan.runs if run.regularizer is Regularizer.NONE]
    search = request.search.model_copy(update={"paused": False, "over": False, "why": None})
    return _add_experiment(context, name, plan, baseline, grid={}, study=search)
