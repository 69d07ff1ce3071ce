"""Workers, running and waiting jobs, and the estimated time left. Lists take one query for any number of runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, case, func, select
from sqlalchemy.orm import contains_eager, defer, lazyload, load_only

from app.context import Context
from app.db.models import (
    UNFINISHED,
    UNFINISHED_ENCODING,
    UNFINISHED_IMPORT,
    UNFINISHED_TASK,
    Embedding,
    EmbeddingStatus,
    Encoding,
    Experiment,
    Import,
    ImportStatus,
    Phase,
    Run,
    RunStatus,
    TaskRun,
    Worker,
)
from app.db.models.runs import QUEUE_ORDER
from app.db.session import Sessions
from app.db.types import utcnow
from app.web.dependencies import Row
from isotropy.catalog import Regularizer

TIMED_RUNS = 30
"""Number of first runs of an experiment whose finished ones tell how long a run takes. Reading all is slow."""


class RunProgress(NamedTuple):
    """The columns of a run that estimate its remaining time. All pages poll them, and ORM objects load slowly."""

    id: str
    experiment_id: str
    regularizer: Regularizer
    lam: float
    seed: int
    status: RunStatus
    phase: Phase | None
    phase_done: int
    phase_total: int | None
    worker: str | None
    started_at: datetime | None
    finished_at: datetime | None
    rested_seconds: float


TimedRun = TypeVar("TimedRun", Run, RunProgress)


def count_live_workers(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalars(select(func.count()).select_from(Worker).where(Worker.alive)).one()


def list_workers(context: Context) -> list[Worker]:
    """Return all workers, live ones first."""
    return sorted(context.scalars(select(Worker).order_by(Worker.slot)), key=lambda worker: not worker.alive)


def has_gpu(workers: Iterable[Worker]) -> bool:
    """Return whether a live worker has a GPU, which half precision needs."""
    return any(worker.alive and worker.device.startswith("cuda") for worker in workers)


def has_lost_worker(run: Run | RunProgress, workers: list[Worker]) -> bool:
    """Return whether a run counts as running although its worker is lost and cannot report its end."""
    alive = {worker.slot for worker in workers if worker.alive}
    return run.status is RunStatus.RUNNING and run.worker not in alive


BUSY_EMBEDDING = (EmbeddingStatus.MAKING, EmbeddingStatus.INSPECTING, EmbeddingStatus.MEASURING)
QUEUE_COLUMNS = load_only(
    Run.experiment_id, Run.position, Run.model, Run.regularizer, Run.lam, Run.zeta, Run.seed, Run.status, Run.phase,
    Run.phase_done, Run.phase_total, Run.worker, Run.priority, Run.queued_at, Run.started_at, Run.finished_at,
    Run.rested_seconds, raiseload=True,
)  # fmt: skip


class WaitingRuns(NamedTuple):
    """A page of waiting runs, and the number of all waiting runs."""

    runs: Sequence[Run]
    total: int


class ExperimentQueued(Row):
    """Numbers of an experiment's unfinished runs, and the seconds until they end if they are next in the queue."""

    id: str
    name: str
    running: int
    queued: int
    paused: int
    seconds_left: float | None


class QueueSummary(NamedTuple):
    """Numbers of running and waiting jobs of all kinds, and the seconds until the last run ends; None if unknown."""

    running: int
    waiting: int
    has_worker: bool
    seconds_left: float | None


def list_running_runs(context: Context) -> Sequence[Run]:
    return context.scalars(_select_runs(Run.status == RunStatus.RUNNING).order_by(Run.started_at, Run.id))


def list_waiting_runs(context: Context, limit: int, offset: int = 0) -> WaitingRuns:
    is_waiting = Run.status == RunStatus.QUEUED
    with context.sessions() as session:
        total = session.scalars(select(func.count()).select_from(Run).where(is_waiting)).one()
        query = _select_runs(is_waiting).order_by(*QUEUE_ORDER).limit(limit).offset(offset)
        return WaitingRuns(session.scalars(query).all(), total)


def list_unfinished_experiments(
    context: Context, runs_by_experiment: Mapping[str, Sequence[RunProgress]] | None = None
) -> list[ExperimentQueued]:
    """Return every experiment with unfinished runs, next first.

    ``runs_by_experiment`` is what ``list_runs_in_progress`` returns, if already called.
    """
    unfinished = Run.status.in_((*UNFINISHED, RunStatus.PAUSED))
    statuses = (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.PAUSED)
    counts = [func.count(case((Run.status == status, 1))).label(status.value) for status in statuses]
    query = (
        select(Experiment.id, Experiment.name, *counts)
        .join(Run)
        .where(unfinished)
        .group_by(Experiment.id, Experiment.name)
        .order_by(func.min(Run.priority), func.min(Run.queued_at), Experiment.id)
    )
    if runs_by_experiment is None:
        runs_by_experiment = list_runs_in_progress(context)
    n_workers = count_live_workers(context.sessions)
    with context.sessions() as session:
        rows = session.execute(query).all()
    seconds_left = {row_id: estimate_seconds_left(runs, n_workers) for row_id, runs in runs_by_experiment.items()}
    return [ExperimentQueued(**row._asdict(), seconds_left=seconds_left.get(row.id)) for row in rows]


def list_runs_in_progress(context: Context) -> dict[str, list[RunProgress]]:
    """Return running and queued runs by experiment id, and finished runs of these experiments to estimate times."""
    unfinished = Run.status.in_((RunStatus.RUNNING, RunStatus.QUEUED))
    runs = select(*(getattr(Run, name) for name in RunProgress._fields)).order_by(Run.started_at, Run.id)
    runs_by_experiment: dict[str, list[RunProgress]] = defaultdict(list)
    with context.sessions() as session:
        rows = session.execute(runs.where(unfinished)).all()
        ids = {row.experiment_id for row in rows}
        is_timed = Run.experiment_id.in_(ids), Run.position < TIMED_RUNS, Run.status == RunStatus.FINISHED
        for row in [*rows, *session.execute(runs.where(*is_timed))]:
            runs_by_experiment[row.experiment_id].append(RunProgress(*row))
    return runs_by_experiment


def summarize_queue(context: Context) -> QueueSummary:
    experiments = list_unfinished_experiments(context)
    encodings, (imports, embeddings) = list_unfinished_encodings(context), list_unfinished_uploads(context)
    statuses = [job.status.value for jobs in (encodings, imports, embeddings) for job in jobs]
    n_waiting_jobs = statuses.count(RunStatus.QUEUED.value)
    times = [experiment.seconds_left for experiment in experiments if experiment.running or experiment.queued]
    known_times = [seconds for seconds in times if seconds is not None]
    return QueueSummary(
        sum(experiment.running for experiment in experiments) + len(statuses) - n_waiting_jobs,
        sum(experiment.queued for experiment in experiments) + n_waiting_jobs,
        count_live_workers(context.sessions) > 0,
        sum(known_times) if len(known_times) == len(times) else None,
    )


def list_unfinished_encodings(context: Context) -> Sequence[Encoding]:
    unfinished = select(Encoding).where(Encoding.status.in_(UNFINISHED_ENCODING))
    return context.scalars(unfinished.order_by(Encoding.queued_at, Encoding.id))


def list_unfinished_uploads(context: Context) -> tuple[Sequence[Import], Sequence[Embedding]]:
    """Return unfinished imports, and embeddings that are being made, read, measured or judged."""
    imports = select(Import).where(Import.status.in_((*UNFINISHED_IMPORT, ImportStatus.REMOVING)))
    judged_ids = select(TaskRun.embedding_id).where(TaskRun.status.in_(UNFINISHED_TASK))
    is_busy = Embedding.status.in_(BUSY_EMBEDDING) | Embedding.id.in_(judged_ids)
    embeddings = select(Embedding).where(is_busy, Embedding.trashed_at.is_(None))
    embeddings = embeddings.options(lazyload(Embedding.files), defer(Embedding.inspection))
    return (
        context.scalars(imports.order_by(Import.created_at, Import.id)),
        context.scalars(embeddings.order_by(Embedding.created_at, Embedding.id)),
    )


def _select_runs(condition: ColumnElement[bool]) -> Select[Run]:
    with_experiment = contains_eager(Run.experiment).load_only(Experiment.name, raiseload=True)
    return select(Run).join(Run.experiment).where(condition).options(QUEUE_COLUMNS, with_experiment)


def list_running_with_time_left(
    runs: Sequence[TimedRun], now: datetime | None = None
) -> list[tuple[TimedRun, float | None]]:
    """Return the running runs, each with the estimated seconds until it ends; None if unknown.

    Once a tenth of a run's steps are done, they give the estimate; until then, finished runs give their mean duration.
    """
    now, usual_duration = now or utcnow(), _mean_duration(runs)
    timed: list[tuple[TimedRun, float | None]] = []
    for run in runs:
        if run.status is RunStatus.RUNNING:
            elapsed, remaining = _elapsed(run, run.started_at or now, now), None
            if run.phase is Phase.TRAINING and run.phase_total and 10 * run.phase_done >= run.phase_total:
                remaining = elapsed * run.phase_total / run.phase_done - elapsed
            elif usual_duration is not None and usual_duration > elapsed:
                remaining = usual_duration - elapsed
            timed.append((run, remaining))
    return timed


def estimate_seconds_left(runs: Sequence[TimedRun], n_workers: int, now: datetime | None = None) -> float | None:
    """Estimate the seconds until all runs end if they are next in the queue; None if unknown."""
    now = now or utcnow()
    timed = [(run, remaining) for run, remaining in list_running_with_time_left(runs, now) if remaining is not None]
    n_waiting = sum(run.status is RunStatus.QUEUED for run in runs)
    usual_duration = _mean_duration(runs)
    if usual_duration is None and timed:
        usual_duration = max(remaining + _elapsed(run, run.started_at or now, now) for run, remaining in timed)
    if usual_duration is None or not n_workers or not (timed or n_waiting):
        return None
    remaining_seconds = [remaining for _, remaining in timed]
    # There may be more running runs than workers, because a worker may train several.
    n_parallel = min(max(n_workers, len(timed)), len(timed) + n_waiting)
    seconds_of_work = n_waiting * usual_duration + sum(remaining_seconds)
    return max(seconds_of_work / n_parallel, max(remaining_seconds, default=0.0))


def _mean_duration(runs: Sequence[TimedRun]) -> float | None:
    durations = [
        _elapsed(run, run.started_at, run.finished_at)
        for run in runs
        if run.status is RunStatus.FINISHED and run.started_at is not None and run.finished_at is not None
    ]
    return sum(durations) / len(durations) if durations else None


def _elapsed(run: Run | RunProgress, start: datetime, end: datetime) -> float:
    """Return the seconds from start to end, without those in which the run was paused."""
    return (end - start).total_seconds() - run.rested_seconds
