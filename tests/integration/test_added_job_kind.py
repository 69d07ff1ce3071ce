import pytest

from app.db.job_kinds import INTERACTIVE_PRIORITY, KINDS, Job, JobKind, Queue
from app.db.models import Encoding, EncodingStatus, Worker
from app.db.types import utcnow
from app.db.work import list_waiting_jobs
from app.queue import processing_jobs
from tests.factories import add_encoding
from tests.waiting import wait_for
from workers.executor import MAX_ATTEMPTS, Executor
from workers.process import JobProcesses
from workers.reconciler import reconcile


@pytest.fixture
def toy(monkeypatch):
    states = {"waiting": (EncodingStatus.DRAFT,), "failed": EncodingStatus.FAILED}
    wording = {"activity": "reads proofs", "pages": "encodings", "priority": INTERACTIVE_PRIORITY}
    kind = JobKind("proofread", Queue.LAB, Encoding, **states, work="tests.toy_job:proofread", **wording)
    monkeypatch.setitem(KINDS, kind.name, kind)
    return kind


def add(context, toy, name="harmless"):
    row_id = add_encoding(context)
    with context.sessions.begin() as session:
        session.get_one(Encoding, row_id).name = name
    return Job(toy, row_id)


def state(context, job):
    with context.sessions() as session:
        return session.get_one(Encoding, job.row_id).status


@pytest.mark.usefixtures("short_pauses")
def test_added_job_is_executed_restored_and_given_up(context, toy):
    harmless_job, deadly_job = add(context, toy), add(context, toy, "deadly")
    assert set(list_waiting_jobs(context.sessions)) == {harmless_job, deadly_job}
    processes = JobProcesses(context.settings, "cpu")
    executor = Executor(context.sessions, processes, "here/cpu", context.settings.runs)
    with processing_jobs(context.settings.queue, "here/cpu", executor.execute):
        reconcile(context.sessions, context.queue, set())  # the engine does not know the jobs yet
        wait_for(lambda: state(context, harmless_job) is EncodingStatus.FINISHED, 120)
        wait_for(lambda: state(context, deadly_job) is EncodingStatus.FAILED, 120)
        wait_for(lambda: not context.queue.list_active())
        with context.sessions.begin() as session:
            assert session.get_one(Encoding, deadly_job.row_id).attempts == MAX_ATTEMPTS + 1
            session.get_one(Encoding, harmless_job.row_id).status = EncodingStatus.DRAFT
        reconcile(context.sessions, context.queue, set())  # the engine has recorded the job as ended
        wait_for(lambda: state(context, harmless_job) is EncodingStatus.FINISHED, 120)
        executor.stop()


def test_queue_page_shows_activity_of_worker(client, context, toy):
    job = add(context, toy)
    assert (job.priority, Job.parse("proofread-x")) == (10, Job(job.kind, "x"))  # interactive
    running_job = {"id": job.workflow_id, "since": utcnow().isoformat(), "memory_bytes": 1, "peak_bytes": 2}
    with context.sessions.begin() as session:
        session.add(Worker(slot="here/cpu", pid=1, device="cpu", heartbeat_at=utcnow(), jobs=[running_job]))
    assert f'<a href="/encodings/{job.row_id}">reads proofs</a>' in client.get("/queue").text
