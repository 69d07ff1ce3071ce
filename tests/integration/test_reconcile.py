import asyncio

import pytest

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Embedding, EmbeddingFile, EmbeddingStatus, StoredFile
from app.db.work import FileLocks, waiting_jobs
from app.queue import working
from tests.waiting import wait_for
from workers.reconciler import reconcile, take_over_the_dead


@pytest.fixture
def row_ids(context):
    """Three uploads to be inspected that the engine has never heard of."""
    ids = []
    for i in range(3):
        with context.sessions.begin() as session:
            session.merge(StoredFile(sha256="0" * 64, size_bytes=1))
            session.flush()
            files = [EmbeddingFile(position=0, filename="e.npy", file_sha256="0" * 64)]
            session.add(row := Embedding(name=f"e{i}", filename="e.npy", files=files, format="npy"))
        ids.append(row.id)
    return ids


@pytest.mark.both_databases
def test_rows_the_engine_does_not_know_are_enqueued_once_in_their_order(context, row_ids):
    assert waiting_jobs(context.sessions) == [Job(job_kinds.INSPECT, run_id) for run_id in row_ids]
    reconcile(context.sessions, context.queue, set())
    assert context.queue.active() == {f"inspect-{run_id}" for run_id in row_ids}
    for _ in range(2):
        assert reconcile(context.sessions, context.queue, set()) == set()
    assert len(context.queue.active()) == 3


def test_a_job_that_waits_is_not_started_anew_and_one_whose_row_is_final_cancelled_at_the_second_look(context, row_ids):
    job = Job(job_kinds.INSPECT, row_ids[0])
    context.queue.enqueue(job)
    context.queue.ensure(job)
    assert context.queue.active() == {job.workflow_id}
    reconcile(context.sessions, context.queue, set())
    with context.sessions.begin() as session:
        session.get(Embedding, row_ids[0]).status = EmbeddingStatus.FAILED
    unwanted = reconcile(context.sessions, context.queue, set())
    assert unwanted == {f"inspect-{row_ids[0]}"}
    assert unwanted < context.queue.active()
    reconcile(context.sessions, context.queue, unwanted)
    assert context.queue.active() == {f"inspect-{run_id}" for run_id in row_ids[1:]}


@pytest.fixture
def stranded(context, row_ids):
    """A job that was begun by the worker here/cpu, which is gone: the list of what began, and what begins more."""
    began: list[str] = []

    async def execute(job: Job) -> None:
        began.append(job.row_id)
        await asyncio.Event().wait()

    context.queue.enqueue(Job(job_kinds.INSPECT, row_ids[0]))
    with working(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: began)
    return began, execute


@pytest.mark.both_databases
def test_the_jobs_of_a_worker_that_is_gone_go_to_one_of_another_name(context, row_ids, stranded, tmp_path):
    began, execute = stranded
    assert context.queue.slots() == {"here/cpu"}

    locks = FileLocks(tmp_path)
    free = take_over_the_dead(context.queue, "here/cuda:0", locks, set())
    assert free == {"here/cpu"}
    assert context.queue.slots() == {"here/cpu"}, "its slot may be free for a moment"
    with locks.held("here/cpu"):
        assert take_over_the_dead(context.queue, "here/cuda:0", locks, free) == set()
    assert context.queue.slots() == {"here/cpu"}, "while its slot is held a worker lives"

    take_over_the_dead(context.queue, "here/cuda:0", locks, free)
    with working(context.settings.queue, "here/cuda:0", execute):
        wait_for(lambda: len(began) == 2)
    assert began == [row_ids[0]] * 2
    assert context.queue.slots() == {"here/cuda:0"}


@pytest.mark.usefixtures("stranded")
def test_a_worker_whose_own_session_is_new_takes_nobody_for_dead(context, tmp_path):
    class Reopened(FileLocks):
        """As those in PostgreSQL are when their session is lost while a lock is asked for."""

        looks = iter([True, False])

        @property
        def settled(self) -> bool:
            return next(self.looks)

    assert take_over_the_dead(context.queue, "here/cuda:0", Reopened(tmp_path), {"here/cpu"}) == set()
    assert context.queue.slots() == {"here/cpu"}


@pytest.mark.both_databases
def test_a_job_the_engine_gave_up_while_its_row_waits_starts_again(context, row_ids):
    job = Job(job_kinds.INSPECT, row_ids[0])
    reconcile(context.sessions, context.queue, set())
    context.queue.cancel(job)
    assert job.workflow_id not in context.queue.active()
    reconcile(context.sessions, context.queue, set())
    assert job.workflow_id in context.queue.active()
