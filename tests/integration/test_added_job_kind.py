"""A kind of job that is added by its record alone: engine, executor, reconciler and pages know it."""

import pytest

from app.db.job_kinds import KINDS, Job, JobKind, Queue
from app.db.models import Encoding, EncodingStatus, StoredFile, Worker
from app.db.types import utcnow
from app.db.work import waiting_jobs
from app.queue import working
from tests.waiting import wait_for
from workers.executor import MAX_ATTEMPTS, Executor
from workers.process import JobProcesses
from workers.reconciler import reconcile


@pytest.fixture
def toy(monkeypatch):
    kind = JobKind(
        "proofread",
        Queue.LAB,
        Encoding,
        (EncodingStatus.DRAFT,),
        EncodingStatus.FAILED,
        work="tests.toy_job:proofread",
        doing="reads proofs",
        pages="encodings",
        waited_for=True,
    )
    monkeypatch.setitem(KINDS, kind.name, kind)
    return kind


@pytest.fixture
def add(context, toy):
    """Add a row that waits for the job, and return the job."""

    def one(name="harmless"):
        with context.sessions.begin() as session:
            session.merge(StoredFile(sha256="0" * 64, size_bytes=1))
            row = Encoding(name=name, filename="a.txt", file_sha256="0" * 64, n_texts=1, columns=[])
            session.add(row)
        return Job(toy, row.id)

    return one


@pytest.fixture
def state(context):
    """Read from the row how far a job is."""

    def read(job):
        with context.sessions() as session:
            return session.get_one(Encoding, job.row_id).status

    return read


def test_workers_do_it_and_bring_it_back_and_give_it_up(context, add, state):
    well, badly = add(), add("deadly")
    assert set(waiting_jobs(context.sessions)) == {well, badly}
    processes = JobProcesses(context.settings, "cpu")
    executor = Executor(context.sessions, processes, "here/cpu", context.settings.runs)
    with working(context.settings.queue, "here/cpu", executor.execute):
        reconcile(context.sessions, context.queue, set())  # nobody else has told the engine of them
        wait_for(lambda: state(well) is EncodingStatus.FINISHED, 120)
        wait_for(lambda: state(badly) is EncodingStatus.FAILED, 120)
        wait_for(lambda: not context.queue.active())
        with context.sessions.begin() as session:
            assert session.get_one(Encoding, badly.row_id).attempts == MAX_ATTEMPTS + 1
            session.get_one(Encoding, well.row_id).status = EncodingStatus.DRAFT
        reconcile(context.sessions, context.queue, set())  # the engine believes that it has ended
        wait_for(lambda: state(well) is EncodingStatus.FINISHED, 120)
        executor.stop()


def test_its_turn_is_that_of_what_somebody_waits_for(toy, add):
    assert (add().priority, Job.parse("proofread-x")) == (10, Job(toy, "x"))


def test_the_page_of_the_queue_says_what_a_worker_does(client, context, add):
    job = add()
    told = {"id": job.workflow_id, "since": utcnow().isoformat(), "memory_bytes": 1, "peak_bytes": 2}
    with context.sessions.begin() as session:
        session.add(Worker(slot="here/cpu", pid=1, device="cpu", heartbeat_at=utcnow(), jobs=[told]))
    assert f'<a href="/encodings/{job.row_id}">reads proofs</a>' in client.get("/queue").text
