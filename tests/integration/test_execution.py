import asyncio
import os
import signal

import pytest

from app.db.models import Embedding, EmbeddingFile, EmbeddingStatus, StoredFile, Worker
from app.errors import ConflictError
from app.queue import Job, JobKind, working
from tests.waiting import wait_for
from workers.execution import MAX_ATTEMPTS, Executor
from workers.heartbeat import Heartbeat
from workers.slot import held


class Processes:
    """Job processes that end as told; what a real one does is shown in tests/faults."""

    def __init__(self, *exit_codes: int) -> None:
        self.exit_codes = list(exit_codes)
        self.started: list[Job] = []

    async def run(self, job: Job) -> int:
        self.started.append(job)
        return self.exit_codes.pop(0) if self.exit_codes else -signal.SIGKILL

    def kill_all(self) -> None:
        pass


@pytest.fixture
def job(context):
    with context.sessions.begin() as session:
        session.add(StoredFile(sha256="0" * 64, size_bytes=1))
        session.flush()
        files = [EmbeddingFile(position=0, filename="e.npy", file_sha256="0" * 64)]
        embedding = Embedding(name="e", filename="e.npy", files=files, format="npy")
        session.add(embedding)
    return Job(JobKind.INSPECT, embedding.id)


def test_a_process_that_crashes_is_started_again(context, job):
    processes = Processes(-signal.SIGKILL, 1, 0)
    asyncio.run(Executor(context.sessions, processes, "here/cpu").execute(job))
    assert processes.started == [job] * 3


def test_a_job_that_only_crashes_is_given_up_with_the_cause(context, job):
    processes = Processes()
    asyncio.run(Executor(context.sessions, processes, "here/cpu").execute(job))
    assert len(processes.started) == MAX_ATTEMPTS
    with context.sessions() as session:
        embedding = session.get(Embedding, job.row_id)
    assert embedding.status is EmbeddingStatus.FAILED
    assert "ended 5 times without getting further (last by signal SIGKILL)" in embedding.error


def test_an_orderly_end_is_no_attempt_and_the_job_is_not_called_done(context, job):
    processes = Processes()
    executor = Executor(context.sessions, processes, "here/cpu")

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


def test_a_job_whose_row_is_gone_or_final_starts_nothing(context, job):
    processes = Processes(0)
    executor = Executor(context.sessions, processes, "here/cpu")
    with context.sessions.begin() as session:
        session.get(Embedding, job.row_id).status = EmbeddingStatus.READY
    asyncio.run(executor.execute(job))
    asyncio.run(executor.execute(Job(JobKind.CURVE, "no such row")))
    assert processes.started == []


def test_the_engine_runs_a_job_once_and_cancels_it_while_it_runs(context):
    began, ended = [], []

    async def execute(job: Job) -> None:
        began.append(job)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(job)

    with working(context.settings.queue, "here/cpu", execute):
        job = Job(JobKind.FINETUNE, "some-row")
        for _ in range(3):
            context.queue.enqueue(job)
        wait_for(lambda: began)
        context.queue.cancel(job)
        wait_for(lambda: ended)
    assert (began, ended) == ([job], [job])
    assert context.queue.active() == set()


def test_a_waiting_job_goes_by_priority_then_by_age(context):
    order = []

    async def execute(job: Job) -> None:
        order.append(job.row_id)

    for name, priority in (("late", 100), ("first", 1), ("later", 100)):
        context.queue.enqueue(Job(JobKind.FINETUNE, name), priority)
    with working(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: len(order) == 3)
    assert order == ["first", "late", "later"]


def test_a_slot_is_held_by_one_worker_at_a_time(tmp_path):
    with (
        held("here/cpu", tmp_path),
        pytest.raises(ConflictError, match="already works as here/cpu"),
        held("here/cpu", tmp_path),
    ):
        pass
    with held("here/cpu", tmp_path):
        pass


def test_a_worker_has_a_row_while_it_lives(context):
    with Heartbeat(context.sessions, "here/cpu", "cpu"), context.sessions() as session:
        assert session.get(Worker, "here/cpu").pid == os.getpid()
    with context.sessions() as session:
        assert session.get(Worker, "here/cpu") is None
