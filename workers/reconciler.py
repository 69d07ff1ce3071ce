"""Bring rows and engine to agree where a crash came between them, and remove what nobody needs.

A row is committed before its job is enqueued, and cancelled before the engine is told. What lies between is
mended here, at a worker's start and every ten seconds: a dead worker's runs wait for two looks, and a look costs a
handful of queries, by one worker at a time.

At a worker's start and then every hour, one worker at a time.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.db.job_kinds import Job
from app.db.models import Experiment
from app.db.removal import remove_left
from app.db.session import Sessions, one_line
from app.db.work import waiting_jobs
from app.queue import JobQueue
from app.storage.ledger import Ledger
from isoscope.core.errors import ConflictError, UnavailableError
from workers.locks import Background, Locks
from workers.notices import notify_of_ends

logger = logging.getLogger(__name__)

RECONCILE_SECONDS = 10


@dataclass(eq=False)
class Reconciler(Background):
    """Reconciles rows and engine while the context is open; one worker of a queue at a time."""

    sessions: Sessions
    queue: JobQueue
    slot: str
    locks: Locks
    has: Callable[[], set[str]]
    webhook: SecretStr | None = None

    def work(self) -> None:
        unwanted: set[str] = set()
        free: set[str] = set()
        missing: set[str] = set()
        while True:
            try:
                missing = retake_own(self.queue, self.slot, self.has, missing)
                with self.locks.held("reconciler"):
                    free = take_over_the_dead(self.queue, self.slot, self.locks, free)
                    advance_searches(self.sessions)
                    notify_of_ends(self.sessions, self.webhook)
                    unwanted = reconcile(self.sessions, self.queue, unwanted)
            except ConflictError:
                pass  # another worker is at it
            except SQLAlchemyError as error:
                logger.warning("rows and engine could not be compared: %s", one_line(error))
            except Exception:
                logger.warning("rows and engine could not be compared", exc_info=True)
            if self.stop.wait(RECONCILE_SECONDS):
                return


def take_over_the_dead(queue: JobQueue, slot: str, locks: Locks, free_before: set[str]) -> set[str]:
    """Put back the jobs of workers whose slot nobody holds: the engine gives them only to a worker of that name.

    They are stranded when a machine is lost, or when its name or device is another at the next start. A worker that
    lives lets go of its slot for a second when its session is lost: the slots that are free this time are returned, to
    be handed in at the next look, and only one that was free before is taken over.
    """
    if not locks.settled:
        return set()
    free = set()
    for other_slot in queue.slots() - {slot}:
        with suppress(ConflictError), locks.held(other_slot):
            if locks.settled:  # still: our own session may be a new one meanwhile
                free.add(other_slot)
                if other_slot in free_before:
                    queue.put_back(queue.list_taken(other_slot))
    return free


def retake_own(queue: JobQueue, slot: str, has: Callable[[], set[str]], missing_before: set[str]) -> set[str]:
    """Put back jobs that the engine believes this worker has and that are not here.

    The engine was told of their end and could not keep it, as on a full disk. Between the end of a job and the engine's
    word lies a moment: what is missing this time is returned, to be handed in at the next look, and only what was
    missing before is put back.
    """
    missing = queue.list_taken(slot) - has()
    if lost := missing & missing_before:
        logger.warning("put back, as nothing here works on them: %s", ", ".join(sorted(lost)))
        queue.put_back(lost)
    return missing


def reconcile(sessions: Sessions, queue: JobQueue, unwanted_before: set[str]) -> set[str]:
    """Enqueue what rows wait for and the engine does not know; cancel what no row waits for.

    Of what waits in turn the engine knows nothing before a worker is free for it.
    A job whose row has just become final is given until the next look to end by itself: the workflow ids that no
    row waited for this time are returned, to be handed in then.
    """
    before = waiting_jobs(sessions)
    active = queue.active()
    # A job may have ended between the two looks; only what is still wanted afterwards was forgotten.
    after = set(waiting_jobs(sessions))
    for job in before:
        if job in after and job.workflow_id not in active and not job.kind.in_turn:
            queue.ensure(job)
    unwanted = active - {job.workflow_id for job in after.union(before)}
    for workflow_id in unwanted & unwanted_before:
        queue.cancel(Job.parse(workflow_id))
    return unwanted


def advance_searches(sessions: Sessions) -> None:
    """Ask for the next trials of searches: a crash may have come between the end of a run and the asking.

    A search that cannot be advanced holds up neither the others nor what else is mended here.
    """
    with sessions() as session:
        searches = session.scalars(select(Experiment.id).where(Experiment.study.is_not(None))).all()
    for experiment_id in searches:
        try:
            with sessions() as session:
                study = session.scalar(select(Experiment.study).where(Experiment.id == experiment_id))
            if study is not None and not study.over:
                from workers.training.search import advance  # noqa: PLC0415 - Optuna, which most workers never need

                advance(sessions, experiment_id)
        except Exception:
            logger.warning("the search %s could not be advanced", experiment_id, exc_info=True)


JANITOR_SECONDS = 60 * 60
# Of the engine's records of jobs that have ended: what came of them stands in our rows.
KEPT_DAYS = 7.0


@dataclass(eq=False)
class Janitor(Background):
    """Cleans up storage and engine while the context is open."""

    ledger: Ledger
    queue: JobQueue
    locks: Locks

    def __exit__(self, *_: object) -> None:
        self.stop.set()  # not waited for: a storage out of reach must not keep a worker from ending

    def work(self) -> None:
        while True:
            try:
                with self.locks.held("janitor"):
                    _do("%s removals that were cut off are done", remove_left, self.ledger.sessions)
                    _do("%s stored files that no row names were removed", self.ledger.sweep)
                    _do("%s records of jobs that ended long ago were removed", self.queue.forget_ended, KEPT_DAYS)
            except ConflictError:
                pass  # another worker is at it
            if self.stop.wait(JANITOR_SECONDS):
                return


def _do(done: str, chore: Callable[..., int], *arguments: object) -> None:
    """Do a chore and log its count; a failed one is retried next time."""
    try:
        if count := chore(*arguments):
            logger.info(done, count)
    except (SQLAlchemyError, UnavailableError) as error:
        logger.warning("%s could not be done: %s", chore.__name__, one_line(error))
    except Exception:
        logger.warning("%s could not be done", chore.__name__, exc_info=True)
