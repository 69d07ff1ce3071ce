"""The interface to the job engine, DBOS: durable workflows in one database. No other module uses DBOS.

A job is work on one row. The row is committed first and its job is enqueued afterward. The workflow id derives from
the row id, so enqueueing twice has no further effect, and after a crash the workers' reconciler enqueues missing jobs.
Jobs that run a model are enqueued by a free worker (``workers/executor.py``). Results are in the rows.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread
from types import SimpleNamespace
from typing import NamedTuple

import dbos._dbos
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions, WorkflowStatus, error
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import NullPool

from app.core.settings import add_driver
from app.db.job_kinds import FINETUNE, KINDS, Job, Queue
from app.db.session import acquire_locks, add_clock_to_all_connections, create_database_engine, driver_message

logger = logging.getLogger(__name__)

add_clock_to_all_connections()

APPLICATION = "isoscope"
# Pinned: by default the version is a hash of the source, and an upgrade would strand interrupted jobs.
VERSION = "1"
WORKFLOW = "work"
CANCELLED = error.DBOSAwaitedWorkflowCancelledError | error.DBOSWorkflowCancelledError
ACTIVE = ["ENQUEUED", "PENDING", "DELAYED"]
ENDED = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
DELETE_BATCH_SIZE = 500
# Never reached: the row counts attempts and fails the run with an error message first.
MAX_RECOVERY_ATTEMPTS = 10_000
# Workers check for cancelled jobs every second. A job that is enqueued again before the next check would run twice.
CANCEL_SECONDS = 2.0
# Clocks of two machines differ by less, so a worker has surely seen a cancellation that looks older than this.
MAX_CLOCK_DIFFERENCE = timedelta(minutes=1)
# The engine's default schema on PostgreSQL.
ENGINE_SCHEMA = "dbos"
# Connections of a worker to the engine's database: it runs few jobs, and PostgreSQL has few connections.
POOL_SIZE = 5
# Polling interval of each queue while any job waits.
POLLING_SECONDS = 0.25
REPORTS_AT_ONCE = 2
# How often a worker checks for waiting jobs, and how often the engine polls when none seem to wait.
CHECK_SECONDS = 0.3
IDLE_SECONDS = 15.0


class QueueSnapshot(NamedTuple):
    """The unfinished jobs of one queue, according to the engine."""

    worker_slots: dict[str, str | None]
    """By workflow id of a started job, the slot of its worker."""
    waiting: set[str]
    """Workflow ids of jobs that no worker has started."""


Execute = Callable[[Job], Awaitable[None]]


def migrate(url: str) -> None:
    DBOS.migrate(url)


class JobQueue:
    """Enqueues and cancels jobs. If the engine's database is unreachable, the reconciler does it later."""

    def __init__(self, url: str) -> None:
        _quiet_engine_logs()
        self._client = DBOSClient(
            system_database_url=url,
            application_name=APPLICATION,
            serializer=DBOSPortableJSONSerializer(),
            lazy=True,
            retry_connection_errors=False,
        )
        self._engine = create_database_engine(add_driver(url), poolclass=NullPool)

    def enqueue(self, job: Job) -> None:
        """Enqueue a job unless the engine has it already."""
        with _log_if_unreachable(job.workflow_id):
            self._client.enqueue(_enqueue_options(job), job.kind.name, job.row_id)

    def try_insert(self) -> None:
        """Enqueue a job and roll back, in one transaction. Raises SQLAlchemyError if no job can be written."""
        job = Job(FINETUNE, "rehearsal")
        with self._engine.connect() as connection:
            acquire_locks(connection)
            self._client.enqueue_in_transaction(connection, _enqueue_options(job), job.kind.name, job.row_id)
            connection.rollback()

    def cancel(self, *jobs: Job) -> None:
        """Cancel jobs: a waiting one never starts, a running one stops within about a second."""
        if not jobs:
            return
        with _log_if_unreachable(jobs[0].workflow_id if len(jobs) == 1 else f"a batch of {len(jobs)} jobs"):
            self._client.cancel_workflows([job.workflow_id for job in jobs])

    def list_active(self) -> set[str]:
        """Return the workflow ids of jobs that have not ended."""
        workflows = self._client.list_workflows(status=ACTIVE, load_input=False, load_output=False)
        return {workflow.workflow_id for workflow in workflows}

    def read_queue(self, queue: Queue) -> QueueSnapshot:
        workflows = self._client.list_workflows(
            queue_name=queue.value, status=["ENQUEUED", "PENDING"], load_input=False, load_output=False
        )
        worker_slots = {
            workflow.workflow_id: workflow.executor_id for workflow in workflows if workflow.status == "PENDING"
        }
        return QueueSnapshot(worker_slots, {workflow.workflow_id for workflow in workflows} - worker_slots.keys())

    def ensure_enqueued(self, job: Job) -> None:
        """Enqueue a job unless it waits or runs; enqueue it again if the engine believes that it ended."""
        with _log_if_unreachable(job.workflow_id):
            workflow = self._find_workflow(job)
            if workflow is None or workflow.status not in ACTIVE:
                self._reenqueue(job, workflow)

    def list_worker_slots(self) -> set[str]:
        """Return the slots of workers, alive or not, that have started jobs and not ended them."""
        workflows = self._client.list_workflows(status="PENDING", load_input=False, load_output=False)
        return {workflow.executor_id for workflow in workflows if workflow.executor_id is not None}

    def list_unfinished(self, slot: str) -> set[str]:
        """Return the workflow ids of jobs that the worker in a slot has started and not ended, as the engine knows."""
        workflows = self._client.list_workflows(status="PENDING", executor_id=slot, load_input=False, load_output=False)
        return {workflow.workflow_id for workflow in workflows}

    def requeue(self, workflow_ids: Collection[str]) -> None:
        """Return jobs that no worker runs to their queues."""
        for workflow_id in workflow_ids:
            self._client.resume_workflow(workflow_id, queue_name=Job.parse(workflow_id).kind.queue.value)

    def delete_ended(self, days: float) -> int:
        """Delete records of jobs that ended more than ``days`` ago; return their number."""
        cutoff = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        n_deleted = 0
        while workflows := self._client.list_workflows(
            status=ENDED, completed_before=cutoff, limit=DELETE_BATCH_SIZE, load_input=False, load_output=False
        ):
            self._client.delete_workflows([workflow.workflow_id for workflow in workflows])
            n_deleted += len(workflows)
        return n_deleted

    def restart(self, job: Job) -> None:
        """Enqueue a job again, whatever its state in the engine."""
        with _log_if_unreachable(job.workflow_id):
            self._reenqueue(job, self._find_workflow(job))

    def _find_workflow(self, job: Job) -> WorkflowStatus | None:
        workflows = self._client.list_workflows(workflow_ids=[job.workflow_id], load_input=False, load_output=False)
        return workflows[0] if workflows else None

    def _reenqueue(self, job: Job, workflow: WorkflowStatus | None) -> None:
        """Enqueue a job again. If it was just cancelled, first wait for its worker to stop it."""
        if workflow and workflow.status == "CANCELLED" and workflow.executor_id is not None and workflow.updated_at:
            seconds_since_cancel = abs(datetime.now(UTC).timestamp() - workflow.updated_at / 1000)
            if seconds_since_cancel < MAX_CLOCK_DIFFERENCE.total_seconds():  # its worker may still run it
                time.sleep(CANCEL_SECONDS)
                current = self._find_workflow(job)
                if current is not None and (current.status in ACTIVE or current.created_at != workflow.created_at):
                    return  # another process has enqueued it
        if workflow is not None:
            self._client.delete_workflows([job.workflow_id])
        self.enqueue(job)

    def delete_records(self, jobs: Collection[Job]) -> None:
        self._client.delete_workflows([job.workflow_id for job in jobs])

    def close(self) -> None:
        self._client.destroy()


def _enqueue_options(job: Job) -> EnqueueOptions:
    return {
        "workflow_name": WORKFLOW,
        "queue_name": job.kind.queue.value,
        "workflow_id": job.workflow_id,
        "app_version": VERSION,
        "priority": job.priority,
    }


@contextmanager
def _log_if_unreachable(jobs: str) -> Iterator[None]:
    """If the engine's database does not answer, log that the jobs named in words have to wait, instead of raising."""
    try:
        yield
    except (OperationalError, PoolTimeoutError) as disconnection:
        logger.warning(
            "the job engine's database does not answer; %s has to wait: %s", jobs, driver_message(disconnection)
        )


def _quiet_engine_logs() -> None:
    """Silence the engine's warning about SQLite (see docs/architecture.md) and errors of cancelled jobs."""
    engine = logging.getLogger("dbos")
    engine.setLevel(logging.ERROR)
    engine.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], CANCELLED)))


class QueueWatch:
    """Lets the engine's threads sleep while no job waits in any of its queues.

    Each of these threads would poll the database four times a second with several statements, which takes 5% of a core
    in an idle worker. Here one statement on one connection polls for all of them.
    """

    def __init__(self, url: str) -> None:
        self._engine = create_database_engine(add_driver(url), poolclass=NullPool).execution_options(
            isolation_level="AUTOCOMMIT"
        )
        schema = "" if self._engine.dialect.name == "sqlite" else f"{ENGINE_SCHEMA}."
        self._waiting_query = text(f"select 1 from {schema}workflow_status where status = 'ENQUEUED' limit 1")  # noqa: S608
        self._waiting = Event()
        self._stop = Event()
        self._waiting.set()
        self._thread = Thread(target=self._watch, name="queues", daemon=True)
        self._thread.start()

    def stop_watching(self) -> None:
        """Stop watching. The engine's threads then poll at their own interval."""
        self._stop.set()
        self._thread.join()
        self._waiting.set()
        self._engine.dispose()

    def wait(self, stop: Event, timeout: float) -> bool:
        """Wait before the engine polls again: for ``timeout`` seconds, or until a job waits. Return whether to stop."""
        if self._waiting.is_set():
            return stop.wait(timeout)
        self._waiting.wait(IDLE_SECONDS)
        return stop.is_set()

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                with self._engine.connect() as connection:
                    while not self._stop.wait(CHECK_SECONDS):
                        if connection.scalar(self._waiting_query) is None:
                            self._waiting.clear()
                        else:
                            self._waiting.set()
            except SQLAlchemyError:
                self._waiting.set()  # so that the engine's own threads poll and log the problem
                self._stop.wait(CHECK_SECONDS)


@contextmanager
def processing_jobs(url: str, slot: str, execute: Execute, runs_at_once: int = 1) -> Iterator[None]:
    """Take jobs of all queues and run them with ``execute`` while the context is open.

    ``slot`` names this worker for the engine. It is stable, so that the worker gets its interrupted jobs back at the
    next start, and locked, because two workers of the same name would run the same job twice. ``execute`` is cancelled
    when its job is cancelled. ``runs_at_once`` must be the same for all workers, because the engine has one limit for
    each queue; ``execute`` refuses a job for which this worker has no room.
    """

    @DBOS.step(name="execute", preemptible=True)
    async def run(kind: str, row_id: str) -> None:
        await execute(Job(KINDS[kind], row_id))

    @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=MAX_RECOVERY_ATTEMPTS)
    async def work(kind: str, row_id: str) -> None:
        await run(kind, row_id)

    _quiet_engine_logs()
    DBOS(
        config=DBOSConfig(
            name=APPLICATION,
            system_database_url=url,
            executor_id=slot,
            application_version=VERSION,
            serializer=DBOSPortableJSONSerializer(),
            log_level="ERROR",
            sys_db_pool_size=POOL_SIZE,
        )
    )
    with watching_queues(url) as watch:
        try:
            DBOS.listen_queues([queue.value for queue in Queue])
            DBOS.launch()
            jobs_at_once = {Queue.GPU: runs_at_once, Queue.MEASURE: REPORTS_AT_ONCE}
            for queue in Queue:
                DBOS.register_queue(
                    queue.value,
                    worker_concurrency=jobs_at_once.get(queue, 1),
                    polling_interval_sec=POLLING_SECONDS,
                    on_conflict="always_update",
                )
            yield
        finally:
            watch.stop_watching()
            DBOS.destroy(workflow_completion_timeout_sec=0, destroy_registry=True)


@contextmanager
def watching_queues(url: str) -> Iterator[QueueWatch]:
    """Make the queue threads that the engine starts in this context wait on a ``QueueWatch``.

    DBOS 3.4.0 can poll less often but cannot be woken. Its version is pinned; a test checks that its threads sleep.
    """
    engine_namespace, watch = vars(dbos._dbos), QueueWatch(url)
    run_queues = engine_namespace["queue_thread"]

    def run_watched(stop: Event, engine: DBOS) -> None:
        # Between polls these threads wait on the event that stops them. This one waits on the watch too.
        watched_stop = SimpleNamespace(is_set=stop.is_set, wait=partial(watch.wait, stop))
        run_queues(watched_stop, engine)

    engine_namespace["queue_thread"] = run_watched
    try:
        yield watch
    finally:
        engine_namespace["queue_thread"] = run_queues
