"""Run jobs: take the next one, run it until its row is final, retry it after a crash, or give up with an error.

Jobs that run a model wait in their rows, because the engine cannot reprioritize queued jobs. So a free worker enqueues
only the job that comes next, and moving a waiting run means changing its row.
"""

import asyncio
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db.job_kinds import IMPORT, Job, JobKind, Queue
from app.db.models import Attempt, AttemptOutcome, FailureCause, Run, RunStatus
from app.db.session import TURNS_LOCK, Sessions, error_line
from app.db.types import utcnow
from app.db.work import (
    begin_attempt,
    end_attempts,
    end_lost_attempts,
    has_waiting_jobs,
    next_waiting_job,
    pause_waiting_runs,
    queue_for_whole_device,
    ran_beside_others,
)
from app.queue import JobQueue
from isoscope.core.errors import ConflictError
from workers.locks import BackgroundThread, Locks
from workers.placement import Device, may_start
from workers.process import DATABASE_AWAY, DEVICE_LOST, DISK_FULL, LIBRARY_MISSING, JobProcesses
from workers.training.log import Log

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_CHECKS = 0.4  # for the next job
SECONDS_AFTER_AN_ERROR = 5.0


@dataclass(eq=False)
class JobFeeder(BackgroundThread):
    """Enqueues the next job for this worker, repeatedly while the context is open."""

    sessions: Sessions
    queue: JobQueue
    device: Device
    locks: Locks
    deferred_ids: Callable[[], set[str]]
    """Returns the workflow ids of jobs that go last."""

    def work(self) -> None:
        pause_seconds = 0.0
        while not self.stop.wait(pause_seconds):
            pause_seconds = SECONDS_BETWEEN_CHECKS
            try:
                enqueue_next_job(self.sessions, self.queue, self.device, self.locks, self.deferred_ids())
            except Exception as error:
                pause_seconds = SECONDS_AFTER_AN_ERROR
                is_outage = isinstance(error, SQLAlchemyError)
                logger.warning("the next job could not be enqueued: %s", error_line(error), exc_info=not is_outage)


def enqueue_next_job(
    sessions: Sessions, queue: JobQueue, device: Device, locks: Locks, deferred_ids: Collection[str] = frozenset()
) -> None:
    """Enqueue the next job if this worker's device has room, and cancel jobs that were enqueued too early.

    Jobs in ``deferred_ids`` go last, so that one broken row blocks nothing. Jobs were enqueued too early if another
    worker enqueued them and died, or if another job has been moved ahead since. If a worker takes such a job just
    before it is cancelled, the job is stopped and starts again later.
    """
    if not has_waiting_jobs(sessions, Queue.GPU):
        return
    gpu_queue = queue.read_queue(Queue.GPU)  # read before the rows: a job that ends in between is not enqueued again
    next_job = next_waiting_job(sessions, Queue.GPU, gpu_queue.worker_slots.keys() | deferred_ids)
    if next_job is None:
        return
    premature_ids = gpu_queue.waiting - {next_job.workflow_id} - set(deferred_ids)
    is_enqueued = next_job.workflow_id in gpu_queue.waiting
    should_enqueue = not is_enqueued and may_start(sessions, device, next_job, gpu_queue)
    if not premature_ids and not should_enqueue:
        return
    with suppress(ConflictError), locks.held(TURNS_LOCK):  # raises ConflictError if another worker is doing this
        if premature_ids:
            queue.cancel(*map(Job.parse, sorted(premature_ids)))
        if should_enqueue:
            queue.ensure_enqueued(next_job)


MAX_ATTEMPTS = 5
# The limit while no process of the job has crashed, only its workers.
MAX_LOST_ATTEMPTS = 25
DATABASE_AWAY_TEXT = "the database not answering"
DISK_FULL_TEXT = "a full disk"
# The system sends this signal to a process when memory runs out.
KILLED_TEXT = f"signal {signal.SIGKILL.name}"
LIBRARY_MISSING_TEXT = "a library that is missing or too old"
# By the description of a job's last end: the cause of its failure, and the end of the sentence that reports it.
CAUSE_AND_ADVICE = {
    DATABASE_AWAY_TEXT: (FailureCause.DATABASE, ", the last time because the database did not answer. Make sure that "
        "it is running and can be reached from the worker, and try again."),
    DISK_FULL_TEXT: (FailureCause.DISK, ", the last time because the worker's disk is full. Free some space there, and "
        "try again."),
    LIBRARY_MISSING_TEXT: (FailureCause.UNSPECIFIED, f": the worker has {LIBRARY_MISSING_TEXT}. Its log names it. "
        "Install what Isoscope needs there, start the worker again, and try again."),
}  # fmt: skip
TEMPORARY_OUTCOMES = (AttemptOutcome.DATABASE_AWAY, AttemptOutcome.DISK_FULL)
# The pause before a retry after such an outcome; it doubles each time. If a row cannot be written, writing is retried
# every ``FIRST_PAUSE_SECONDS`` for ``DATABASE_RETRY_SECONDS``.
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 60.0
DATABASE_RETRY_SECONDS = 300.0
# For this long after a job's row could not be written, other jobs go first.
DEFER_SECONDS = 10.0
# The exit code reported for a process that could not be started.
NOT_STARTED = 71


class ProcessEnd(NamedTuple):
    """How a job's process ended without finishing the job."""

    outcome: AttemptOutcome
    description: str
    """The text of the row's ``error`` while the job is retried."""


END_BY_EXIT_CODE = {
    DATABASE_AWAY: ProcessEnd(AttemptOutcome.DATABASE_AWAY, DATABASE_AWAY_TEXT),
    DISK_FULL: ProcessEnd(AttemptOutcome.DISK_FULL, DISK_FULL_TEXT),
    LIBRARY_MISSING: ProcessEnd(AttemptOutcome.KILLED, LIBRARY_MISSING_TEXT),
    NOT_STARTED: ProcessEnd(AttemptOutcome.KILLED, "a process that did not start"),
}


@dataclass(eq=False)
class Executor:
    """Runs each job that the engine hands over. A failure never keeps the next job from running."""

    sessions: Sessions
    processes: JobProcesses
    slot: str
    runs: Path
    is_refused: Callable[[Job], bool] = lambda _: False
    """Returns whether the device has no room for a job. A refused job is enqueued again later."""
    _unfinished_calls: Counter[Job] = field(default_factory=Counter, init=False)
    _jobs_in_attempt: set[Job] = field(default_factory=set, init=False)
    _deferred_at: dict[str, float] = field(default_factory=dict, init=False)
    """By workflow id, the monotonic time at which its row could not be written."""
    _stopping: bool = field(default=False, init=False)

    def active_ids(self) -> set[str]:
        """Return the workflow ids of the jobs that run here or wait to be tried again."""
        return {job.workflow_id for job in list(self._unfinished_calls)}

    def deferred_ids(self) -> set[str]:
        """Return the workflow ids of jobs whose row could not be written in the last ``DEFER_SECONDS``."""
        cutoff = time.monotonic() - DEFER_SECONDS
        for workflow_id, deferred_at in list(self._deferred_at.items()):
            if deferred_at <= cutoff:
                del self._deferred_at[workflow_id]
        return set(self._deferred_at)

    async def execute(self, job: Job) -> None:
        """Run a job, unless it is refused, until it ends or is left to another worker or call.

        If its row cannot be written, the row keeps waiting, and the reconciler or a free worker enqueues the job again.
        """
        self._unfinished_calls[job] += 1
        try:
            if not await asyncio.to_thread(self.is_refused, job):
                await self._execute(job)
        except Exception as error:  # noqa: BLE001 - the engine would store it in the unreachable database
            self._deferred_at[job.workflow_id] = time.monotonic()
            logger.error("%s was not recorded and will be enqueued again: %s", job.workflow_id, error_line(error))
        finally:
            self._unfinished_calls[job] -= 1
            self._unfinished_calls += Counter()  # drop counts of zero

    async def _execute(self, job: Job) -> None:
        """Run attempts until a process exits with 0 or ``_begin`` returns None."""
        pause_seconds = FIRST_PAUSE_SECONDS
        attempt = await self._begin_with_retries(job, last_end=None, last_attempt=None)
        while attempt is not None:
            self._jobs_in_attempt.add(job)
            try:
                exit_code = NOT_STARTED if self._stopping else await self._run_process(job)
                if exit_code == DEVICE_LOST:
                    logger.error("The device no longer answers. This worker ends, so that other workers take its runs.")
                    os.kill(os.getpid(), signal.SIGTERM)
                if self._stopping or exit_code == DEVICE_LOST:
                    await asyncio.Event().wait()  # forever: returning would tell the engine that the job is done
            finally:
                self._jobs_in_attempt.discard(job)
            if exit_code == 0:
                return
            description = f"exit code {exit_code}" if exit_code > 0 else f"signal {signal.Signals(-exit_code).name}"
            end = END_BY_EXIT_CODE.get(exit_code, ProcessEnd(AttemptOutcome.KILLED, description))
            logger.warning("an attempt at %s ended with %s", job.workflow_id, end.description)
            if end.outcome in TEMPORARY_OUTCOMES:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
            attempt = await self._begin_with_retries(job, end, attempt)

    async def _run_process(self, job: Job) -> int:
        try:
            return await self.processes.run(job)
        except OSError as error:
            logger.error("no process could be started for %s: %s", job.workflow_id, error_line(error))
            return NOT_STARTED

    async def _begin_with_retries(self, job: Job, last_end: ProcessEnd | None, last_attempt: int | None) -> int | None:
        """Call ``_begin``; while the database cannot be written, try again for several minutes."""
        deadline = time.monotonic() + DATABASE_RETRY_SECONDS
        while True:
            try:
                return await asyncio.to_thread(self._begin, job, last_end, last_attempt)
            except SQLAlchemyError as error:
                if time.monotonic() > deadline:
                    raise
                logger.warning("%s waits for the database: %s", job.workflow_id, error_line(error))
            if self._stopping:
                await asyncio.Event().wait()  # forever, as in ``_execute``
            await asyncio.sleep(FIRST_PAUSE_SECONDS)

    def stop(self) -> None:
        """Kill all jobs. They resume when this worker starts again, or on another worker that finds its slot free."""
        self._stopping = True
        self.processes.kill_all()
        runs_here = (Run.worker == self.slot) & (Run.status == RunStatus.RUNNING)
        with self.sessions.begin() as session:
            for job in list(self._jobs_in_attempt):  # an orderly stop is not a failed attempt
                table = job.kind.table
                reset_attempts = update(table).where(table.id == job.row_id)
                if table is Run:  # another worker may have taken it by now
                    reset_attempts = reset_attempts.where(Run.worker == self.slot)
                session.execute(reset_attempts.values(attempts=0))
            session.execute(update(Run).where(runs_here).values(status=RunStatus.QUEUED, worker=None))
            end_attempts(session, Attempt.worker == self.slot, AttemptOutcome.WORKER_STOPPED)

    def _begin(self, job: Job, last_end: ProcessEnd | None, last_attempt: int | None) -> int | None:
        """Begin an attempt; return its number, or None if the row ended or is another call's, or too many failed.

        ``last_end`` and ``last_attempt`` are end and number of the previous attempt of this call; None for the first.
        """
        with self.sessions.begin() as session:
            row = session.get(job.kind.table, job.row_id, with_for_update=True)
            if row is None or row.status not in job.kind.waiting:
                return None
            if last_end is not None:
                if isinstance(row, Run):  # compare its worker, because each checkpoint resets its attempts
                    if row.worker != self.slot:
                        return None  # this worker was presumed dead, and the run given to another
                    end_attempts(session, Attempt.run_id == row.id, last_end.outcome, last_end.description)
                    if last_end.description == KILLED_TEXT and ran_beside_others(session, row):
                        queue_for_whole_device(row)
                        return None
                elif row.attempts != last_attempt:
                    return None  # the job was cancelled and requested again, so another call works on it
                row.error = last_end.description
            row.attempts += 1
            limit = MAX_ATTEMPTS if row.error else MAX_LOST_ATTEMPTS
            if row.attempts > limit:
                self._give_up(session, job.kind, row)
                return None
            if isinstance(row, Run):
                row.worker = self.slot
                begin_attempt(session, row.id, self.slot)
            attempt: int = row.attempts
        return attempt

    def _give_up(self, session: Session, kind: JobKind, row: Any) -> None:
        """Mark a row as failed after too many attempts, with the reason; pause a failed run's waiting siblings."""
        row.status = kind.failed
        if kind.sets_finished_at:
            row.finished_at = utcnow()
        cause, advice = CAUSE_AND_ADVICE.get(row.error or "", (FailureCause.KILLED, ""))
        if isinstance(row, Run):
            row.cause = cause
            row.log = Log(self.runs / row.id).tail() or row.log
            end_lost_attempts(session, Attempt.run_id == row.id)
        if not advice:
            suggestion = "a smaller batch, a smaller model" if kind.queue is Queue.GPU else "fewer dimensions"
            advice = (
                f" (last time: {row.error or 'its worker ended'}). SIGKILL most often means that memory ran out: try "
                f"{suggestion} or fewer rows."
            )
        n_ended = row.attempts - 1  # the last attempt was counted but not begun
        row.error = f"The process of this job ended {n_ended} times without progress{advice}"
        if isinstance(row, Run):
            session.flush()
            pause_waiting_runs(session, row)
        if kind == IMPORT:  # removing what it wrote is another job, with its own attempts
            row.attempts = 0
