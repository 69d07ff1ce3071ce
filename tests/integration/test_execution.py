import asyncio
import os
import signal
import time
from types import SimpleNamespace

import pytest
from dbos._sys_db import SystemDatabase
from sqlalchemy.exc import OperationalError

from app.db import job_kinds, models
from app.db.job_kinds import Job
from app.db.task import TaskConfig
from app.queue import CANCEL_SECONDS, POLLING_SECONDS, processing_jobs
from isotropy.catalog import TruthKind
from tests.factories import add_embedding, add_encoding, add_experiment, run_row
from tests.fake_processes import Processes
from tests.waiting import patience, wait_for
from workers.executor import MAX_ATTEMPTS, MAX_LOST_ATTEMPTS, Executor
from workers.process import DATABASE_AWAY, DEVICE_LOST, DISK_FULL, LIBRARY_MISSING
from workers.reconciler import requeue_missing_jobs

pytestmark = pytest.mark.usefixtures("short_pauses")
KILLED = -signal.SIGKILL
FULL = OperationalError("update", {}, Exception("database or disk is full"))


@pytest.fixture
def job(context):
    return Job(job_kinds.INSPECT, add_embedding(context, status=models.EmbeddingStatus.INSPECTING))


@pytest.fixture
def run_job(context):
    add_experiment(context, run := run_row(0.0, status=models.RunStatus.QUEUED))
    return Job(job_kinds.FINETUNE, run.id)


@pytest.fixture
def encode_job(context):
    job = Job(job_kinds.ENCODE, add_encoding(context))
    with context.sessions.begin() as session:
        session.get(models.Encoding, job.row_id).status = models.EncodingStatus.QUEUED
    return job


def executor(context, processes):
    return Executor(context.sessions, processes, "here/cpu", context.settings.runs)


def execute(context, processes, job):
    asyncio.run(executor(context, processes).execute(job))
    return read(context, job)


def read(context, job):
    with context.sessions() as session:
        return session.get(job.kind.table, job.row_id)


class Changing(Processes):
    def __init__(self, context, **columns):
        super().__init__(then=KILLED)
        self.context, self.columns = context, columns

    async def run(self, job: Job) -> int:
        with self.context.sessions.begin() as session:
            row = session.get(job.kind.table, job.row_id)
            for name, value in self.columns.items():
                setattr(row, name, value)
        return await super().run(job)


@pytest.mark.both_databases
def test_crashed_process_is_restarted(context, job):
    processes = Processes(-signal.SIGKILL, 1, 0)
    execute(context, processes, job)
    assert processes.started == [job] * 3


def test_crashing_job_fails_with_cause_and_ended_job_is_skipped(context, job):
    processes = Processes(then=KILLED)
    embedding = execute(context, processes, job)
    assert (len(processes.started), embedding.status) == (MAX_ATTEMPTS, models.EmbeddingStatus.FAILED)
    assert "ended 5 times without progress (last time: signal SIGKILL)" in embedding.error
    with context.sessions.begin() as session:
        session.get(models.Embedding, job.row_id).status = models.EmbeddingStatus.READY
    for candidate in (job, Job(job_kinds.CURVE, "no such row")):
        execute(context, processes := Processes(0), candidate)
        assert processes.started == []


def test_lost_workers_are_tolerated_longer_than_crashes(context, job):
    for attempts, started in ((MAX_ATTEMPTS, [job]), (MAX_LOST_ATTEMPTS, [])):
        with context.sessions.begin() as session:
            session.get(models.Embedding, job.row_id).attempts = attempts
        embedding = execute(context, processes := Processes(0), job)
        assert processes.started == started
    assert "ended 25 times without progress (last time: its worker ended)" in embedding.error


@pytest.mark.both_databases
def test_run_of_lost_worker_is_taken_over_unless_reassigned(context, run_job):
    with context.sessions.begin() as session:
        run = session.get(models.Run, run_job.row_id)
        run.status, run.worker, run.attempts = models.RunStatus.RUNNING, "lost/cpu", 1
    run = execute(context, Processes(0), run_job)
    assert (run.worker, run.attempts) == ("here/cpu", 2)
    run = execute(context, processes := Changing(context, worker="there/cpu"), run_job)
    assert processes.started == [run_job]
    assert (run.worker, run.attempts, run.error) == ("there/cpu", 3, None)


@pytest.mark.parametrize(
    ("exit_code", "cause", "sentence"),
    [
        (KILLED, models.FailureCause.KILLED, "ended 5 times without progress (last time: signal SIGKILL)"),
        (LIBRARY_MISSING, models.FailureCause.UNSPECIFIED, "a library that is missing or too old. Its log names it."),
        (DATABASE_AWAY, models.FailureCause.DATABASE, "the last time because the database did not answer."),
    ],
)
def test_failed_run_keeps_cause_and_log(context, run_job, exit_code, cause, sentence):
    folder = context.settings.runs / run_job.row_id
    folder.mkdir()
    (folder / "log.txt").write_text("the kernel ended it\n")
    run = execute(context, Processes(*[exit_code] * MAX_ATTEMPTS), run_job)
    assert (run.status, run.cause, run.log) == (models.RunStatus.FAILED, cause, "the kernel ended it")
    assert sentence in run.error


def test_failed_encodings_and_tasks_have_end_time(context, encode_job):
    config, judged = TaskConfig(kind=TruthKind.COMPRESSION), add_embedding(context)
    task = models.TaskRun(embedding_id=judged, config=config, status=models.TaskStatus.QUEUED)
    with context.sessions.begin() as session:
        session.add(task)
    jobs = {encode_job: models.EncodingStatus.FAILED, Job(job_kinds.JUDGE, task.id): models.TaskStatus.FAILED}
    for job, failed in jobs.items():
        row = execute(context, Processes(then=KILLED), job)
        assert (row.status, row.finished_at is None) == (failed, False)


def test_old_process_does_not_end_relaunched_encoding(context, encode_job):
    encoding = execute(context, processes := Changing(context, attempts=0), encode_job)  # as a launch does
    assert processes.started == [encode_job]
    assert (encoding.status, encoding.attempts, encoding.error) == (models.EncodingStatus.QUEUED, 0, None)


def test_shutdown_refunds_attempt_except_of_reassigned_run(context, job, run_job):
    class Ending(Changing):
        async def run(self, job: Job) -> int:
            await super().run(job)
            ending.stop()
            asyncio.get_running_loop().call_later(1, asyncio.current_task().cancel)  # it would wait forever
            return KILLED

    for ended, columns in ((job, {}), (run_job, {"worker": "there/cpu", "attempts": 2})):
        ending = executor(context, Ending(context, **columns))
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(ending.execute(ended))
    assert (read(context, job).status, read(context, job).attempts) == (models.EmbeddingStatus.INSPECTING, 0)
    run = read(context, run_job)
    assert (run.worker, run.attempts) == ("there/cpu", 2)


@pytest.mark.both_databases
def test_worker_on_lost_device_ends_and_leaves_its_run_to_others(context, run_job, monkeypatch):
    leaving = executor(context, processes := Processes(DEVICE_LOST))
    signals = []
    monkeypatch.setattr("workers.executor.os.kill", lambda *arguments: (
        signals.append(arguments), leaving.stop(),
        asyncio.get_running_loop().call_later(1, asyncio.current_task().cancel),  # it would wait forever
    ))  # fmt: skip
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(leaving.execute(run_job))
    assert (signals, processes.started) == ([(os.getpid(), signal.SIGTERM)], [run_job])
    run = read(context, run_job)
    assert (run.status, run.attempts, run.error) == (models.RunStatus.QUEUED, 0, None)
    taking = Executor(context.sessions, processes := Processes(0), "there/cuda:0", context.settings.runs)
    asyncio.run(taking.execute(run_job))
    assert (processes.started, read(context, run_job).worker) == ([run_job], "there/cuda:0")


def test_shutdown_keeps_attempts_of_cancelled_job(context, job):
    class Long(Processes):
        async def run(self, job: Job) -> int:
            self.started.append(job)
            asyncio.current_task().cancel()
            return await asyncio.sleep(60, result=0)

    ending = executor(context, processes := Long())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(ending.execute(job))
    assert processes.started == [job]
    ending.stop()
    assert read(context, job).attempts == 1


class Sleeper:
    def __init__(self):
        self.began, self.ended, self.ended_before = [], [], []

    async def execute(self, job: Job) -> None:
        self.began.append(job)
        self.ended_before.append(len(self.ended))
        try:
            await asyncio.sleep(60)
        finally:
            self.ended.append(job)


@pytest.mark.both_databases
def test_engine_never_runs_restarted_job_twice_at_once(context, monkeypatch):
    monkeypatch.setattr("app.queue.CANCEL_SECONDS", CANCEL_SECONDS * patience())
    sleeper, job = Sleeper(), Job(job_kinds.FINETUNE, "some-row")
    with processing_jobs(context.settings.queue, "here/cpu", sleeper.execute):
        for _ in range(3):
            context.queue.enqueue(job)
        for count, again in enumerate((context.queue.ensure_enqueued, context.queue.restart), 2):
            wait_for(lambda: len(sleeper.began) == count - 1)  # noqa: B023
            context.queue.cancel(job)
            again(job)
            wait_for(lambda: len(sleeper.began) == count)  # noqa: B023
        context.queue.cancel(job)
        wait_for(lambda: len(sleeper.ended) == 3)
    assert (sleeper.began, sleeper.ended_before) == ([job] * 3, [0, 1, 2])
    assert context.queue.list_active() == set()
    job = Job(job_kinds.FINETUNE, "another-row")
    context.queue.enqueue(job)
    context.queue.cancel(job)
    monkeypatch.setattr("app.queue.time", None)  # no sleep, as no worker had begun it
    context.queue.ensure_enqueued(job)
    assert context.queue.list_active() == {job.workflow_id}


def test_concurrent_restart_begins_job_once(context, monkeypatch):
    sleeper, job = Sleeper(), Job(job_kinds.MEASURE, "some-row")

    def restart_meanwhile(seconds: float) -> None:
        monkeypatch.setattr("app.queue.time", time)
        time.sleep(seconds)
        context.queue.restart(job)
        wait_for(lambda: len(sleeper.began) == 2)

    with processing_jobs(context.settings.queue, "here/cpu", sleeper.execute):
        context.queue.enqueue(job)
        wait_for(lambda: sleeper.began)
        context.queue.cancel(job)
        monkeypatch.setattr("app.queue.time", SimpleNamespace(sleep=restart_meanwhile))
        context.queue.restart(job)
        time.sleep(1)
        assert context.queue.list_unfinished("here/cpu") == {job.workflow_id}
        assert len(sleeper.began) == 2


@pytest.mark.both_databases
def test_waiting_jobs_run_by_priority_then_age(context):
    order, names = [], [f"{(3 * number) % 8}" for number in range(8)]

    async def execute(job: Job) -> None:
        order.append(job.row_id)

    for name, priority in (("late", 100), ("first", 1), *((name, 100) for name in names)):
        context.queue.enqueue(Job(job_kinds.FINETUNE, name, priority))
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: len(order) == 10)
    assert order == ["first", "late", *names]


def test_lab_trial_does_not_wait_for_other_jobs(context):
    sleeper, trial = Sleeper(), Job(job_kinds.POSTPROCESS, "row")
    busy = [Job(job_kinds.ENCODE, "row"), Job(job_kinds.MEASURE, "row"), Job(job_kinds.INSPECT, "row")]
    for job in busy:
        context.queue.enqueue(job)
    with processing_jobs(context.settings.queue, "here/cpu", sleeper.execute):
        wait_for(lambda: len(sleeper.began) == len(busy))
        context.queue.ensure_enqueued(trial)
        wait_for(lambda: trial in sleeper.began)
        context.queue.cancel(*busy, trial)
        wait_for(lambda: len(sleeper.ended) == 4)


@pytest.mark.both_databases
def test_idle_worker_stops_polling_and_wakes_for_job(context, monkeypatch):
    """With hours between polls, only the enqueued job can wake the engine's threads."""
    monkeypatch.setattr("app.queue.IDLE_SECONDS", 10_000.0)
    began, query_times = [], [time.monotonic()]
    dequeue_scopes = SystemDatabase.dequeue_scopes

    def record_query(database, queue_name):
        query_times.append(time.monotonic())
        return dequeue_scopes(database, queue_name)

    async def execute(job):
        began.append(job)

    monkeypatch.setattr(SystemDatabase, "dequeue_scopes", record_query)
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: time.monotonic() - query_times[-1] > 4 * POLLING_SECONDS)
        query_count = len(query_times)
        job = Job(job_kinds.INSPECT, "some-row")
        context.queue.enqueue(job)
        wait_for(lambda: began)
        assert len(query_times) > query_count
    assert began == [job]


class Sessions:
    def __init__(self, sessions, failures):
        self.sessions = sessions
        self.failures = failures

    def begin(self):
        if self.failures:
            self.failures -= 1
            raise FULL
        return self.sessions.begin()


def execute_failing(context, run_job, processes, failures=0):
    executor = Executor(Sessions(context.sessions, failures), processes, "here/cpu", context.settings.runs)
    asyncio.run(executor.execute(run_job))
    return executor


@pytest.mark.both_databases
def test_executor_waits_for_database_to_recover(context, run_job):
    execute_failing(context, run_job, processes := Processes(then=0), failures=5)
    assert (len(processes.started), read(context, run_job).attempts) == (1, 1)


def test_job_is_deferred_when_database_stays_full(context, run_job, monkeypatch, caplog):
    monkeypatch.setattr("workers.executor.DATABASE_RETRY_SECONDS", 0.05)
    executor = execute_failing(context, run_job, processes := Processes(then=0), failures=10**9)
    assert len(processes.started) == 0
    assert executor.active_ids() == set()
    assert f"{run_job.workflow_id} was not recorded and will be enqueued again: database or disk is full" in caplog.text
    assert executor.deferred_ids() == {run_job.workflow_id}
    monkeypatch.setattr("workers.executor.DEFER_SECONDS", 0.0)
    assert executor.deferred_ids() == set()
    execute_failing(context, run_job, processes)
    assert len(processes.started) == 1


def test_failed_process_start_is_retried_and_full_disk_fails_run(context, run_job):
    execute_failing(context, run_job, processes := Processes(BlockingIOError("no more processes"), 0, then=0))
    assert len(processes.started) == 2
    with context.sessions.begin() as session:
        session.get_one(models.Run, run_job.row_id).attempts = 0
    execute_failing(context, run_job, processes := Processes(*[DISK_FULL] * 9, then=0))
    assert len(processes.started) == MAX_ATTEMPTS
    run = read(context, run_job)
    assert (run.status, run.cause) == (models.RunStatus.FAILED, models.FailureCause.DISK)
    assert "the worker's disk is full" in run.error


def test_job_is_active_while_executed(context, run_job):
    class ActiveRecorder(Processes):
        async def run(self, job):
            active.append(executor.active_ids())
            return 0

    active = []
    executor = Executor(context.sessions, ActiveRecorder(), "here/cpu", context.settings.runs)
    asyncio.run(executor.execute(run_job))
    assert active == [{run_job.workflow_id}]
    assert executor.active_ids() == set()


@pytest.mark.both_databases
def test_missing_job_is_requeued_at_second_check(context, run_job, monkeypatch):
    began, failed = [], []

    async def execute(job):
        began.append(job)
        if len(began) == 1:
            raise FULL

    def fail(*_, **__):
        failed.append(run_job)
        raise FULL

    queue, local_ids = context.queue, {run_job.workflow_id}
    queue.enqueue(run_job)
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        with monkeypatch.context() as patch:  # the engine's own files are on the full disk too
            for method in ("record_operation_result", "update_workflow_outcome"):
                patch.setattr(SystemDatabase, method, fail)
            wait_for(lambda: len(failed) >= 2)
        assert requeue_missing_jobs(queue, "here/cpu", lambda: local_ids, local_ids) == set(), "it is at work"
        missing = requeue_missing_jobs(queue, "here/cpu", set, set())
        assert missing == local_ids
        assert began == [run_job]
        requeue_missing_jobs(queue, "here/cpu", set, missing)
        wait_for(lambda: len(began) == 2)
        wait_for(lambda: not queue.list_active())


@pytest.mark.both_databases
def test_engine_deletes_ended_jobs_after_days(context, run_job):
    async def execute(job):
        pass

    waiting = Job(job_kinds.FINETUNE, "waiting")
    context.queue.enqueue(run_job)
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: not context.queue.list_active())
    context.queue.enqueue(waiting)
    assert context.queue.delete_ended(days=7) == 0
    assert context.queue.delete_ended(days=0) == 1
    assert context.queue.delete_ended(days=0) == 0
    assert context.queue.list_active() == {waiting.workflow_id}
