import asyncio

import pytest
from dbos._sys_db import SystemDatabase
from sqlalchemy.exc import OperationalError

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import FailureCause, Run, RunStatus
from app.queue import processing_jobs
from tests.factories import add_experiment, run_row
from tests.fake_processes import Processes
from tests.waiting import wait_for
from workers.executor import MAX_ATTEMPTS, Executor
from workers.process import DISK_FULL
from workers.reconciler import requeue_missing_jobs

pytestmark = pytest.mark.usefixtures("short_pauses")
FULL = OperationalError("update", {}, Exception("database or disk is full"))


class Sessions:
    def __init__(self, sessions, failures):
        self.sessions = sessions
        self.failures = failures

    def begin(self):
        if self.failures:
            self.failures -= 1
            raise FULL
        return self.sessions.begin()


@pytest.fixture
def job(context):
    run = run_row(status=RunStatus.QUEUED, performance=None, isoscore_star=None)
    add_experiment(context, run)
    return Job(job_kinds.FINETUNE, run.id)


def get_run(context, job):
    with context.sessions() as session:
        return session.get_one(Run, job.row_id)


def execute(context, job, processes, failures=0):
    sessions = Sessions(context.sessions, failures)
    executor = Executor(sessions, processes, "here/cpu", context.settings.runs)
    asyncio.run(executor.execute(job))
    return executor


@pytest.mark.both_databases
def test_executor_waits_for_database_to_recover(context, job):
    execute(context, job, processes := Processes(then=0), failures=5)
    assert (len(processes.started), get_run(context, job).attempts) == (1, 1)


def test_job_is_deferred_when_database_stays_full(context, job, monkeypatch, caplog):
    monkeypatch.setattr("workers.executor.DATABASE_RETRY_SECONDS", 0.05)
    executor = execute(context, job, processes := Processes(then=0), failures=10**9)
    assert len(processes.started) == 0
    assert executor.active_ids() == set()
    assert f"{job.workflow_id} was not recorded and will be enqueued again: database or disk is full" in caplog.text
    assert executor.deferred_ids() == {job.workflow_id}
    monkeypatch.setattr("workers.executor.DEFER_SECONDS", 0.0)
    assert executor.deferred_ids() == set()
    execute(context, job, processes)
    assert len(processes.started) == 1


def test_failed_process_start_is_retried_and_full_disk_fails_run(context, job):
    execute(context, job, processes := Processes(BlockingIOError("no more processes"), 0, then=0))
    assert len(processes.started) == 2
    with context.sessions.begin() as session:
        session.get_one(Run, job.row_id).attempts = 0
    execute(context, job, processes := Processes(*[DISK_FULL] * 9, then=0))
    assert len(processes.started) == MAX_ATTEMPTS
    run = get_run(context, job)
    assert (run.status, run.cause) == (RunStatus.FAILED, FailureCause.DISK)
    assert "the worker's disk is full" in run.error


def test_job_is_active_while_executed(context, job):
    class ActiveRecorder(Processes):
        async def run(self, job):
            active.append(executor.active_ids())
            return 0

    active = []
    executor = Executor(context.sessions, ActiveRecorder(), "here/cpu", context.settings.runs)
    asyncio.run(executor.execute(job))
    assert active == [{job.workflow_id}]
    assert executor.active_ids() == set()


@pytest.mark.both_databases
def test_missing_job_is_requeued_at_second_check(context, job, monkeypatch):
    began, failed = [], []

    async def execute(job):
        began.append(job)
        if len(began) == 1:
            raise FULL

    def fail(*_, **__):
        failed.append(job)
        raise FULL

    queue, local_ids = context.queue, {job.workflow_id}
    queue.enqueue(job)
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        with monkeypatch.context() as patch:  # the engine's own files are on the full disk too
            for method in ("record_operation_result", "update_workflow_outcome"):
                patch.setattr(SystemDatabase, method, fail)
            wait_for(lambda: len(failed) >= 2)
        assert requeue_missing_jobs(queue, "here/cpu", lambda: local_ids, local_ids) == set(), "it is at work"
        missing = requeue_missing_jobs(queue, "here/cpu", set, set())
        assert missing == local_ids
        assert began == [job]
        requeue_missing_jobs(queue, "here/cpu", set, missing)
        wait_for(lambda: len(began) == 2)
        wait_for(lambda: not queue.list_active())


@pytest.mark.both_databases
def test_engine_deletes_ended_jobs_after_days(context, job):
    async def execute(job):
        pass

    waiting = Job(job_kinds.FINETUNE, "waiting")
    context.queue.enqueue(job)
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: not context.queue.list_active())
    context.queue.enqueue(waiting)
    assert context.queue.delete_ended(days=7) == 0
    assert context.queue.delete_ended(days=0) == 1
    assert context.queue.delete_ended(days=0) == 0
    assert context.queue.list_active() == {waiting.workflow_id}
