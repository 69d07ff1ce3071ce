"""Worker slots, attempts at runs, waiting jobs, and scripts that stopped reporting."""

import fcntl
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, case, exists, func, literal, or_, select, update
from sqlalchemy.orm import Session

from app.core.settings import Settings
from app.db.job_kinds import KINDS, Job, JobKind, Queue
from app.db.models import FINAL, Attempt, AttemptOutcome, Experiment, FailureCause, Run, RunStatus, Step, Worker
from app.db.session import Sessions
from app.db.types import utcnow
from isoscope.core.errors import ConflictError, InvalidError

MAX_SLOT_CHARACTERS = 100
SHARED_MEMORY_NOTE = (
    "Memory ran out, or the run was killed, beside other runs on the same device. The run went on without them."
)
PAUSE_REASONS = {FailureCause.MEMORY: "ran out of memory", FailureCause.KILLED: "was killed repeatedly"}
# A script that trains reports every minute, whether it has logged anything or not.
SILENT_AFTER = timedelta(minutes=5)


def slot_name(settings: Settings, device: str) -> str:
    """Return the name of the slot of this machine's worker on a device. It stays the same across restarts."""
    name = f"{settings.worker_name or socket.gethostname()}/{device}"
    if len(name) > MAX_SLOT_CHARACTERS:
        raise InvalidError(
            f"Expected a worker's name and device of at most {MAX_SLOT_CHARACTERS} characters, got {name!r}. "
            "Set ISOSCOPE_WORKER_NAME to a shorter name."
        )
    return name


class FileLocks:
    """Locks as files in one folder. The kernel releases the locks of a process that ends."""

    # Whether a lock that nobody holds proves that its holder has ended.
    is_settled = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def held(self, name: str, refusal: str | None = None) -> Iterator[None]:
        """Hold a lock. If another process does, raise ConflictError with ``refusal``, by default about a taken slot."""
        with (self._folder / f"{name.replace('/', '_')}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise (ConflictError(refusal) if refusal else slot_taken_error(name)) from None
            yield


def slot_taken_error(name: str) -> ConflictError:
    return ConflictError(
        f"Another worker already works as {name}. Stop it first, or give this one another --device "
        "or another ISOSCOPE_WORKER_NAME."
    )


def begin_attempt(session: Session, run_id: str, worker: str) -> None:
    """Add an attempt at a run by a worker. First end an attempt that is still open, because its worker was lost."""
    end_lost_attempts(session, Attempt.run_id == run_id)
    last = session.scalar(select(func.max(Attempt.number)).where(Attempt.run_id == run_id))
    session.add(Attempt(run_id=run_id, number=(last or 0) + 1, worker=worker))


def end_attempts(
    session: Session,
    condition: ColumnElement[bool],
    outcome: AttemptOutcome,
    detail: str | None = None,
    ended_at: datetime | None = None,
) -> None:
    """End open attempts. Call this after changing runs, so that all callers lock rows in the same order."""
    last_logged_step = select(func.max(Step.step)).where(Step.run_id == Attempt.run_id).scalar_subquery()
    changes: dict[str, Any] = {"outcome": outcome, "detail": detail, "ended_at": ended_at or utcnow()}
    # If an attempt never trained, the logged steps of its run are those of earlier attempts.
    changes["last_step"] = case((Attempt.first_step.is_not(None), last_logged_step))
    end_open_attempts = update(Attempt).where(Attempt.ended_at.is_(None), condition).values(changes)
    session.execute(end_open_attempts.execution_options(synchronize_session=False))


def ran_beside_others(session: Session, run: Run) -> bool:
    """Return whether other runs used the device during any part of a run's last attempt."""
    newest = select(Attempt).where(Attempt.run_id == run.id).order_by(Attempt.number.desc()).limit(1)
    attempt = session.scalar(newest)
    if attempt is None or run.whole_device:
        return False
    overlaps = or_(Attempt.ended_at.is_(None), Attempt.ended_at > attempt.started_at)
    neighbors = select(Attempt.run_id).where(Attempt.worker == attempt.worker, Attempt.run_id != run.id, overlaps)
    return session.scalar(neighbors.limit(1)) is not None


def queue_for_whole_device(run: Run) -> None:
    """Queue a run that had too little memory beside others again, to continue without them from its checkpoint."""
    run.status, run.worker, run.whole_device = RunStatus.QUEUED, None, True
    run.notes = [*run.notes, SHARED_MEMORY_NOTE]


def end_lost_attempts(session: Session, condition: ColumnElement[bool]) -> None:
    """End open attempts whose worker was lost, each at the worker's last heartbeat if known."""
    attempts = select(Attempt, Worker.heartbeat_at).outerjoin(Worker, Worker.slot == Attempt.worker)
    for attempt, heartbeat_at in session.execute(attempts.where(Attempt.ended_at.is_(None), condition)).all():
        ended_at = max(attempt.started_at, heartbeat_at) if heartbeat_at is not None else None
        same_attempt = (Attempt.run_id == attempt.run_id) & (Attempt.number == attempt.number)
        end_attempts(session, same_attempt, AttemptOutcome.WORKER_LOST, ended_at=ended_at)


def list_waiting_jobs(sessions: Sessions) -> list[Job]:
    with sessions() as session:
        return [job for kind in KINDS.values() for job, _ in _waiting_jobs_of_kind(session, kind)]


def has_waiting_jobs(sessions: Sessions, queue: Queue) -> bool:
    """Return whether any row waits for a job of a queue, by one cheap statement, because idle workers repeat it."""
    with sessions() as session:
        connection = session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        return bool(connection.scalar(_select_waiting(queue)))


@cache
def _select_waiting(queue: Queue) -> Select[tuple[bool]]:
    kinds = [kind for kind in KINDS.values() if kind.queue is queue]
    return select(or_(*(exists().where(kind.table.__table__.c.status.in_(kind.waiting)) for kind in kinds)))


def next_waiting_job(sessions: Sessions, queue: Queue, skipped_ids: Collection[str]) -> Job | None:
    """Return the next job of a queue by priority and age, skipping the workflow ids in ``skipped_ids``."""
    kinds = [kind for kind in KINDS.values() if kind.queue is queue]
    with sessions() as session:
        pairs = [pair for kind in kinds for pair in _waiting_jobs_of_kind(session, kind, len(skipped_ids) + 1)]
    candidates = [(job.priority, queued_at, job) for job, queued_at in pairs if job.workflow_id not in skipped_ids]
    return min(candidates, key=lambda candidate: candidate[:2])[2] if candidates else None


def _waiting_jobs_of_kind(session: Session, kind: JobKind, limit: int | None = None) -> list[tuple[Job, datetime]]:
    """Return the waiting jobs of a kind, each with the time at which it was queued."""
    table = kind.table
    # None in place of a priority, which these rows do not have.
    order = kind.order or (literal(None), table.created_at if kind.queued_at is None else kind.queued_at, table.id)
    query = select(table.id, *order[:2]).where(table.status.in_(kind.waiting))
    rows = session.execute(query.order_by(*(kind.order or order[1:])).limit(limit))
    return [(Job(kind, row_id, priority), queued_at) for row_id, priority, queued_at in rows]


def pause_waiting_runs(session: Session, run: Run) -> None:
    """Pause the waiting runs of an experiment if ``run``, its first to end, failed for a reason that may affect all.

    Such reasons are too little memory, repeated kills, and failures before the first step. If another run has ended,
    nothing is paused, so that resumed runs are not paused again.
    """
    experiment = session.get(Experiment, run.experiment_id, with_for_update=True)
    is_sibling = (Run.experiment_id == run.experiment_id) & (Run.id != run.id)
    if experiment is None or session.scalar(select(Run.id).where(is_sibling, Run.status.in_(FINAL)).limit(1)):
        return
    reason = PAUSE_REASONS.get(run.cause) if run.cause else None
    if reason is None:
        if session.scalar(select(Step.step).where(Step.run_id == run.id, Step.step > 0).limit(1)):
            return
        reason = "failed before its first step"
    update_waiting = update(Run).where(is_sibling, Run.status == RunStatus.QUEUED)
    pause_waiting = update_waiting.values(status=RunStatus.PAUSED, attempts=0).returning(Run.id)
    if session.scalars(pause_waiting.execution_options(synchronize_session=False)).all():
        experiment.held = f"The first run {reason}, so the others wait. {run.error}"


def is_silent(run: Run) -> bool:
    """Return whether a run is streaming but its script has stopped reporting."""
    return run.status is RunStatus.STREAMING and utcnow() - (run.heard_at or run.queued_at) > SILENT_AFTER
