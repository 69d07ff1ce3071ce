"""Repair differences between rows and engine, and remove files and records that nothing needs.

A row is committed before its job is enqueued, and cancelled before the engine's job is: a crash may come in between.
The reconciler repairs such differences when a worker starts and then every ten seconds, and the janitor cleans up every
hour, each in one worker at a time. Folders of runs are the exception: every machine cleans up its own. It takes two
checks to requeue the jobs of a dead worker.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import Experiment
from app.db.removal import prune_activity, resume_removals
from app.db.session import Sessions, error_line
from app.db.work import list_waiting_jobs
from app.queue import JobQueue
from app.storage.ledger import Ledger
from isoscope.core.errors import ConflictError, UnavailableError
from workers.locks import BackgroundThread, Locks
from workers.notices import announce_ended_experiments
from workers.training.folder import remove_unneeded_folders

logger = logging.getLogger(__name__)

RECONCILE_SECONDS = 10


@dataclass(eq=False)
class Reconciler(BackgroundThread):
    """Reconciles rows and engine while the context is open; one worker of a queue at a time."""

    sessions: Sessions
    queue: JobQueue
    slot: str
    locks: Locks
    active_ids: Callable[[], set[str]]
    """Returns the workflow ids of jobs that run in this worker or wait there to be tried again."""
    webhook: SecretStr | None = None

    def work(self) -> None:
        unwanted_ids: set[str] = set()
        free_slots: set[str] = set()
        missing_ids: set[str] = set()
        while True:
            try:
                missing_ids = requeue_missing_jobs(self.queue, self.slot, self.active_ids, missing_ids)
                with self.locks.held("reconciler"):
                    free_slots = requeue_jobs_of_dead_workers(self.queue, self.slot, self.locks, free_slots)
                    advance_searches(self.sessions)
                    announce_ended_experiments(self.sessions, self.webhook)
                    unwanted_ids = reconcile(self.sessions, self.queue, unwanted_ids)
            except ConflictError:
                pass  # another worker is doing this
            except SQLAlchemyError as error:
                logger.warning("rows and engine could not be compared: %s", error_line(error))
            except Exception:
                logger.warning("rows and engine could not be compared", exc_info=True)
            if self.stop.wait(RECONCILE_SECONDS):
                return


def requeue_jobs_of_dead_workers(queue: JobQueue, slot: str, locks: Locks, previously_free: set[str]) -> set[str]:
    """Requeue the jobs of dead workers, which the engine would give only to a worker of the same slot.

    Jobs are stranded when a machine is lost, or when its name or device has changed at the next start. A live worker
    may free its slot for a second when its session is lost, so a slot must be free at two checks in a row. Return the
    slots that are free now, for ``previously_free`` of the next check.
    """
    if not locks.is_settled:
        return set()
    free_slots = set()
    for other_slot in queue.list_worker_slots() - {slot}:
        with suppress(ConflictError), locks.held(other_slot):
            if locks.is_settled:  # check again: this worker's session may be new by now
                free_slots.add(other_slot)
                if other_slot in previously_free:
                    queue.requeue(queue.list_unfinished(other_slot))
    return free_slots


def requeue_missing_jobs(
    queue: JobQueue, slot: str, active_ids: Callable[[], set[str]], previously_missing: set[str]
) -> set[str]:
    """Requeue jobs that the engine assigns to this worker but that do not run here.

    The engine could not store their end, for example on a full disk. It learns of a job's end a moment late, so a job
    must be missing at two checks in a row. Return the ids missing now, for ``previously_missing`` of the next check.
    """
    missing_ids = queue.list_unfinished(slot) - active_ids()
    if lost_ids := missing_ids & previously_missing:
        logger.warning("put back because nothing here is working on them: %s", ", ".join(sorted(lost_ids)))
        queue.requeue(lost_ids)
    return missing_ids


def reconcile(sessions: Sessions, queue: JobQueue, previously_unwanted: set[str]) -> set[str]:
    """Enqueue jobs that rows wait for and the engine does not have; cancel jobs that no row waits for.

    Jobs that wait in their rows are skipped: a worker enqueues them when it is free. A job whose row has just become
    final has until the next check to end by itself. Return the unwanted workflow ids, for ``previously_unwanted`` of
    the next check.
    """
    jobs_before = list_waiting_jobs(sessions)
    engine_ids = queue.list_active()
    # Read the rows again: a job that has ended between the first two queries is not missing.
    jobs_after = set(list_waiting_jobs(sessions))
    for job in jobs_before:
        if job in jobs_after and job.workflow_id not in engine_ids and not job.kind.waits_in_row:
            queue.ensure_enqueued(job)
    unwanted_ids = engine_ids - {job.workflow_id for job in jobs_after.union(jobs_before)}
    for workflow_id in unwanted_ids & previously_unwanted:
        queue.cancel(Job.parse(workflow_id))
    return unwanted_ids


def advance_searches(sessions: Sessions) -> None:
    """Request the next trials of searches, in case a crash prevented that when a run ended; skip those that fail."""
    with sessions() as session:
        experiment_ids = session.scalars(select(Experiment.id).where(Experiment.study.is_not(None))).all()
    for experiment_id in experiment_ids:
        try:
            with sessions() as session:
                study = session.scalar(select(Experiment.study).where(Experiment.id == experiment_id))
            if study is not None and not study.over:
                from workers.training.search import advance_search  # noqa: PLC0415 - Optuna, which most workers never need

                advance_search(sessions, experiment_id)
        except Exception:
            logger.warning("the search %s could not be advanced", experiment_id, exc_info=True)


JANITOR_SECONDS = 60 * 60
# How long the engine's records of ended jobs are kept; the outcomes are in the rows.
JOB_RECORD_DAYS = 7.0


@dataclass(eq=False)
class Janitor(BackgroundThread):
    """Cleans up storage, engine and the folders of runs while the context is open."""

    settings: Settings
    ledger: Ledger
    queue: JobQueue
    locks: Locks

    def __exit__(self, *_: object) -> None:
        self.stop.set()  # not joined: unreachable storage must not keep a worker from ending

    def work(self) -> None:
        sessions = self.ledger.sessions
        while True:
            # Each machine removes its own: a run may have moved to another, and this one may never train again.
            _run_chore("%s folders of ended runs were removed", remove_unneeded_folders, self.settings, sessions)
            try:
                with self.locks.held("janitor"):
                    _run_chore("%s removals that were cut off are done", resume_removals, sessions)
                    _run_chore("%s stored files that no row names were removed", self.ledger.sweep)
                    _run_chore("%s old rows of the activity were removed", prune_activity, sessions)
                    _run_chore(
                        "%s records of jobs that ended long ago were removed", self.queue.delete_ended, JOB_RECORD_DAYS
                    )
            except ConflictError:
                pass  # another worker is doing this
            if self.stop.wait(JANITOR_SECONDS):
                return


def _run_chore(message: str, chore: Callable[..., int], *arguments: object) -> None:
    """Run a chore and log how much it did; a failure is logged, and the chore is tried again an hour later."""
    try:
        if count := chore(*arguments):
            logger.info(message, count)
    except (SQLAlchemyError, UnavailableError) as error:
        logger.warning("%s could not be done: %s", chore.__name__, error_line(error))
    except Exception:
        logger.warning("%s could not be done", chore.__name__, exc_info=True)
