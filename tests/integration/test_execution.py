import asyncio
import os
import signal
import time
from types import SimpleNamespace

import pytest
from dbos._sys_db import SystemDatabase

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import (
    Dataset,
    DatasetOrigin,
    Embedding,
    EmbeddingFile,
    EmbeddingStatus,
    Encoding,
    EncodingStatus,
    Experiment,
    FailureCause,
    Run,
    RunStatus,
    StoredFile,
    TaskRun,
    TaskStatus,
    Worker,
)
from app.db.task import TaskConfig
from app.queue import POLLING_SECONDS, SECONDS_TO_SEE_A_CANCEL, working
from isotropy.catalog import Regularizer, TruthKind
from tests.executing import Processes
from tests.factories import PLAIN, SHARED, embedding
from tests.waiting import wait_for
from workers.executor import MAX_ATTEMPTS, MAX_LOST_ATTEMPTS, Executor
from workers.locks import Heartbeat
from workers.process import DATABASE_AWAY

pytestmark = pytest.mark.usefixtures("impatient")

KILLED = -signal.SIGKILL


@pytest.fixture
def job(context):
    with context.sessions.begin() as session:
        session.add(StoredFile(sha256="0" * 64, size_bytes=1))
        session.flush()
        files = [EmbeddingFile(position=0, filename="e.npy", file_sha256="0" * 64)]
        embedding = Embedding(name="e", filename="e.npy", files=files, format="npy")
        session.add(embedding)
    return Job(job_kinds.INSPECT, embedding.id)


@pytest.fixture
def run_job(context):
    run = Run(position=0, config=PLAIN, regularizer=Regularizer.ISTAR, lam=0.0, zeta=0.2, seed=0)
    dataset = Dataset(name="d", origin=DatasetOrigin.UPLOAD, columns=[])
    with context.sessions.begin() as session:
        session.add(dataset)
        session.flush()
        session.add(Experiment(name="e", dataset_id=dataset.id, config=SHARED, runs=[run]))
    return Job(job_kinds.FINETUNE, run.id)


@pytest.mark.both_databases
def test_a_process_that_crashes_is_started_again(context, job):
    processes = Processes(-signal.SIGKILL, 1, 0)
    asyncio.run(Executor(context.sessions, processes, "here/cpu", context.settings.runs).execute(job))
    assert processes.started == [job] * 3


def test_a_job_that_only_crashes_is_given_up_with_the_cause(context, job):
    processes = Processes(then=KILLED)
    asyncio.run(Executor(context.sessions, processes, "here/cpu", context.settings.runs).execute(job))
    assert len(processes.started) == MAX_ATTEMPTS
    with context.sessions() as session:
        embedding = session.get(Embedding, job.row_id)
    assert embedding.status is EmbeddingStatus.FAILED
    assert "ended 5 times without getting further (last by signal SIGKILL)" in embedding.error


def test_a_job_that_only_goes_down_with_its_workers_is_given_up_much_later(context, job):
    for attempts, started in ((MAX_ATTEMPTS, [job]), (MAX_LOST_ATTEMPTS, [])):
        with context.sessions.begin() as session:
            session.get(Embedding, job.row_id).attempts = attempts
        processes = Processes(0)
        asyncio.run(Executor(context.sessions, processes, "here/cpu", context.settings.runs).execute(job))
        assert processes.started == started
    with context.sessions() as session:
        embedding = session.get(Embedding, job.row_id)
    assert "ended 25 times without getting further (last by the end of its whole worker)" in embedding.error


@pytest.mark.both_databases
def test_a_run_that_was_given_to_another_worker_meanwhile_is_not_begun_again(context, run_job):
    class Cut(Processes):
        async def run(self, job: Job) -> int:
            with context.sessions.begin() as session:
                session.get(Run, job.row_id).worker = "there/cpu"
            return await super().run(job)

    processes = Cut()
    asyncio.run(Executor(context.sessions, processes, "here/cpu", context.settings.runs).execute(run_job))
    assert processes.started == [run_job]
    with context.sessions() as session:
        run = session.get(Run, run_job.row_id)
    assert (run.worker, run.attempts, run.error) == ("there/cpu", 1, None)


@pytest.mark.both_databases
def test_a_run_of_a_lost_worker_is_taken_over_as_a_further_attempt(context, run_job):
    with context.sessions.begin() as session:
        run = session.get(Run, run_job.row_id)
        run.status, run.worker, run.attempts = RunStatus.RUNNING, "lost/cpu", 1
    asyncio.run(Executor(context.sessions, Processes(0), "here/cpu", context.settings.runs).execute(run_job))
    with context.sessions() as session:
        run = session.get(Run, run_job.row_id)
    assert (run.worker, run.attempts) == ("here/cpu", 2)


@pytest.mark.parametrize(
    ("exit_code", "cause", "sentence"),
    [
        (-signal.SIGKILL, FailureCause.KILLED, "(last by signal SIGKILL)"),
        (DATABASE_AWAY, FailureCause.DATABASE, "the last time because the database did not answer. See that it runs"),
    ],
)
def test_a_run_that_is_given_up_tells_the_kind_of_its_failure(context, run_job, exit_code, cause, sentence):
    processes = Processes(*[exit_code] * MAX_ATTEMPTS)
    asyncio.run(Executor(context.sessions, processes, "here/cpu", context.settings.runs).execute(run_job))
    with context.sessions() as session:
        run = session.get(Run, run_job.row_id)
    assert (run.status, run.cause) == (RunStatus.FAILED, cause)
    assert sentence in run.error


def test_a_run_that_is_given_up_shows_what_its_processes_wrote(context, run_job):
    folder = context.settings.runs / run_job.row_id
    folder.mkdir()
    (folder / "log.txt").write_text("the kernel ended it\n")
    asyncio.run(Executor(context.sessions, Processes(then=KILLED), "here/cpu", context.settings.runs).execute(run_job))
    with context.sessions() as session:
        run = session.get(Run, run_job.row_id)
    assert (run.status, run.log) == (RunStatus.FAILED, "the kernel ended it")
    assert "ended 5 times without getting further (last by signal SIGKILL)" in run.error


@pytest.fixture
def encode_job(context):
    encoding = Encoding(
        name="e", filename="e.txt", file_sha256="0" * 64, n_texts=1, columns=[], status=EncodingStatus.QUEUED
    )
    with context.sessions.begin() as session:
        session.add(StoredFile(sha256="0" * 64, size_bytes=1))
        session.flush()
        session.add(encoding)
    return Job(job_kinds.ENCODE, encoding.id)


def test_an_encoding_that_is_given_up_has_an_end(context, encode_job):
    asyncio.run(
        Executor(context.sessions, Processes(then=KILLED), "here/cpu", context.settings.runs).execute(encode_job)
    )
    with context.sessions() as session:
        encoding = session.get(Encoding, encode_job.row_id)
    assert encoding.status is EncodingStatus.FAILED
    assert encoding.finished_at is not None


def test_a_task_that_is_given_up_has_an_end(context):
    judged = embedding("e")
    task = TaskRun(embedding_id=judged.id, config=TaskConfig(kind=TruthKind.COMPRESSION), status=TaskStatus.QUEUED)
    with context.sessions.begin() as session:
        session.add(judged)
        session.flush()
        session.add(task)
    executor = Executor(context.sessions, Processes(then=KILLED), "here/cpu", context.settings.runs)
    asyncio.run(executor.execute(Job(job_kinds.JUDGE, task.id)))
    with context.sessions() as session:
        task = session.get_one(TaskRun, task.id)
    assert task.status is TaskStatus.FAILED
    assert task.finished_at is not None


def test_the_end_of_an_old_process_is_none_of_an_encoding_that_was_launched_anew(context, encode_job):
    class Late(Processes):
        async def run(self, job: Job) -> int:
            with context.sessions.begin() as session:
                session.get(Encoding, job.row_id).attempts = 0  # as launching does
            return await super().run(job)

    processes = Late()
    asyncio.run(Executor(context.sessions, processes, "here/cpu", context.settings.runs).execute(encode_job))
    assert processes.started == [encode_job]
    with context.sessions() as session:
        encoding = session.get(Encoding, encode_job.row_id)
    assert (encoding.status, encoding.attempts, encoding.error) == (EncodingStatus.QUEUED, 0, None)


def test_an_orderly_end_is_no_attempt_and_the_job_is_not_called_done(context, job):
    processes = Processes(then=KILLED)
    executor = Executor(context.sessions, processes, "here/cpu", context.settings.runs)

    async def end_while_it_runs() -> None:
        async def run(job: Job) -> int:
            executor.stop()
            return -signal.SIGKILL

        processes.run = run
        await asyncio.wait_for(executor.execute(job), 1)

    with pytest.raises(TimeoutError):
        asyncio.run(end_while_it_runs())
    with context.sessions() as session:
        embedding = session.get(Embedding, job.row_id)
    assert (embedding.status, embedding.attempts) == (EmbeddingStatus.INSPECTING, 0)


def test_an_orderly_end_leaves_the_attempts_of_a_run_that_is_another_worker_s(context, run_job):
    executor = Executor(context.sessions, Processes(then=KILLED), "here/cpu", context.settings.runs)

    class Cut(Processes):
        async def run(self, job: Job) -> int:
            with context.sessions.begin() as session:
                run = session.get(Run, job.row_id)
                run.worker, run.attempts = "there/cpu", 2
            executor.stop()
            return -signal.SIGKILL

    executor.processes = Cut()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(executor.execute(run_job), 1))
    with context.sessions() as session:
        run = session.get(Run, run_job.row_id)
    assert (run.worker, run.attempts) == ("there/cpu", 2)


def test_an_orderly_end_leaves_the_attempts_of_a_job_that_was_cancelled(context, job):
    class Long(Processes):
        async def run(self, job: Job) -> int:
            self.started.append(job)
            await asyncio.sleep(60)
            return 0

    processes = Long()
    executor = Executor(context.sessions, processes, "here/cpu", context.settings.runs)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(executor.execute(job), 1))
    assert processes.started == [job]
    executor.stop()
    with context.sessions() as session:
        assert session.get(Embedding, job.row_id).attempts == 1


def test_a_job_whose_row_is_gone_or_final_starts_nothing(context, job):
    processes = Processes(0)
    executor = Executor(context.sessions, processes, "here/cpu", context.settings.runs)
    with context.sessions.begin() as session:
        session.get(Embedding, job.row_id).status = EmbeddingStatus.READY
    asyncio.run(executor.execute(job))
    asyncio.run(executor.execute(Job(job_kinds.CURVE, "no such row")))
    assert processes.started == []


@pytest.mark.both_databases
def test_the_engine_runs_a_job_once_and_cancels_it_while_it_runs(context):
    began, ended = [], []

    async def execute(job: Job) -> None:
        began.append(job)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(job)

    with working(context.settings.queue, "here/cpu", execute):
        job = Job(job_kinds.FINETUNE, "some-row")
        for _ in range(3):
            context.queue.enqueue(job)
        wait_for(lambda: began)
        context.queue.cancel(job)
        wait_for(lambda: ended)
    assert (began, ended) == ([job], [job])
    assert context.queue.active() == set()


@pytest.mark.parametrize("again", ["ensure", "restart"])
@pytest.mark.both_databases
def test_what_is_cancelled_and_asked_for_again_at_once_is_never_at_work_twice(context, again):
    began, ended = [], []

    async def execute(job: Job) -> None:
        began.append(len(ended))
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(job)

    with working(context.settings.queue, "here/cpu", execute):
        job = Job(job_kinds.FINETUNE, "some-row")
        context.queue.enqueue(job)
        wait_for(lambda: began)
        context.queue.cancel(job)
        getattr(context.queue, again)(job)
        wait_for(lambda: len(began) == 2)
        assert began == [0, 1]
        context.queue.cancel(job)
        wait_for(lambda: len(ended) == 2)


def test_what_another_asked_for_again_meanwhile_is_not_begun_twice(context, monkeypatch):
    job, began = Job(job_kinds.MEASURE, "some-row"), []

    async def execute(job: Job) -> None:
        began.append(job.row_id)
        await asyncio.Event().wait()

    def another_asks(seconds: float) -> None:
        monkeypatch.setattr("app.queue.time", time)
        time.sleep(seconds)
        context.queue.restart(job)
        wait_for(lambda: len(began) == 2)

    with working(context.settings.queue, "here/cpu", execute):
        context.queue.enqueue(job)
        wait_for(lambda: began)
        context.queue.cancel(job)
        monkeypatch.setattr("app.queue.time", SimpleNamespace(sleep=another_asks))
        context.queue.restart(job)
        time.sleep(1)
        assert context.queue.list_taken("here/cpu") == {job.workflow_id}
        assert len(began) == 2


def test_what_no_worker_had_taken_is_handed_in_again_at_once(context):
    job = Job(job_kinds.FINETUNE, "some-row")
    context.queue.enqueue(job)
    context.queue.cancel(job)
    before = time.monotonic()
    context.queue.ensure(job)
    assert time.monotonic() - before < SECONDS_TO_SEE_A_CANCEL
    assert context.queue.active() == {job.workflow_id}


@pytest.mark.both_databases
def test_a_waiting_job_goes_by_priority_then_by_age(context):
    order = []

    async def execute(job: Job) -> None:
        order.append(job.row_id)

    for name, priority in (("late", 100), ("first", 1), ("later", 100)):
        context.queue.enqueue(Job(job_kinds.FINETUNE, name, priority))
    with working(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: len(order) == 3)
    assert order == ["first", "late", "later"]


def test_jobs_of_one_priority_go_in_the_order_in_which_they_came(context):
    order = []

    async def execute(job: Job) -> None:
        order.append(job.row_id)

    names = [f"{(7 * number) % 20}" for number in range(20)]
    for name in names:
        context.queue.enqueue(Job(job_kinds.FINETUNE, name))
    with working(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: len(order) == 20)
    assert order == names


def test_a_trial_of_the_lab_waits_neither_for_reports_nor_for_an_encoding(context):
    began = []

    async def execute(job: Job) -> None:
        began.append(job.kind)
        if job.kind is not job_kinds.POSTPROCESS:
            await asyncio.sleep(60)

    busy = [Job(job_kinds.ENCODE, "row"), Job(job_kinds.MEASURE, "row"), Job(job_kinds.INSPECT, "row")]
    for job in busy:
        context.queue.enqueue(job)
    with working(context.settings.queue, "here/cpu", execute, measure_concurrency=2):
        wait_for(lambda: len(began) == len(busy))
        context.queue.ensure(Job(job_kinds.POSTPROCESS, "row"))
        wait_for(lambda: job_kinds.POSTPROCESS in began)
        for job in busy:
            context.queue.cancel(job)


@pytest.mark.both_databases
def test_a_worker_has_a_row_while_it_lives(context):
    with Heartbeat(context.sessions, "here/cpu", "cpu", list), context.sessions() as session:
        assert session.get(Worker, "here/cpu").pid == os.getpid()
    with context.sessions() as session:
        assert session.get(Worker, "here/cpu") is None


@pytest.mark.both_databases
def test_idle_worker_stops_asking_and_wakes_for_a_job(context, monkeypatch):
    """The engine's threads would ask again only after hours; what wakes them is the job that waits."""
    monkeypatch.setattr("app.queue.IDLE_SECONDS", 10_000.0)
    began, asked_at = [], []
    dequeue_scopes = SystemDatabase.dequeue_scopes

    def note_question(database, queue_name):
        asked_at.append(time.monotonic())
        return dequeue_scopes(database, queue_name)

    async def execute(job):
        began.append(job)

    monkeypatch.setattr(SystemDatabase, "dequeue_scopes", note_question)
    with working(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: asked_at and time.monotonic() - asked_at[-1] > 4 * POLLING_SECONDS)
        questions = len(asked_at)
        job = Job(job_kinds.INSPECT, "some-row")
        context.queue.enqueue(job)
        wait_for(lambda: began)
        assert len(asked_at) > questions
    assert began == [job]
