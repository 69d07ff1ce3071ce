import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from app.context import create_context
from app.db import job_kinds, models
from app.db.job_kinds import Job, Queue
from app.db.work import FileLocks, begin_attempt, list_waiting_jobs, next_waiting_job
from app.queue import processing_jobs
from app.training.queue_verbs import FIRST_PRIORITY, QueueMove, RunPriority, move_experiment, move_run, renumber
from tests.factories import add_encoding, add_experiment, run_row
from tests.job_loops import worker_loop
from tests.waiting import wait_for
from workers.executor import enqueue_next_job
from workers.placement import Demand, Device, may_start, read_demands
from workers.reconciler import reconcile, requeue_jobs_of_dead_workers


@pytest.fixture
def endless_job():
    """Return the list to which jobs add their row's id when they begin, and a job that never ends."""
    began = []

    async def execute(job):
        began.append(job.row_id)
        await asyncio.Event().wait()

    return began, execute


def add(context, n=3, **columns):
    columns = {"status": models.RunStatus.QUEUED, "performance": None, "isoscore_star": None} | columns
    runs = [run_row(seed=seed, **columns) for seed in range(n)]
    return add_experiment(context, *runs, name="e"), [run.id for run in runs]


def waiting_ids(context):
    return [job.row_id for job in list_waiting_jobs(context.sessions)]


def job_ids(*ids):
    return {f"finetune-{run_id}" for run_id in ids}


def enqueue_next(context, slot="here/cpu", deferred=(), max_runs=1):
    device, locks = Device(slot, max_runs), FileLocks(context.settings.root / "locks")
    enqueue_next_job(context.sessions, context.queue, device, locks, set(deferred))


def take_jobs(context, n):
    order = []

    async def execute(job):
        order.append(job.row_id)
        with context.sessions.begin() as session:
            session.get_one(models.Run, job.row_id).status = models.RunStatus.FINISHED

    with worker_loop(context, "here/cpu", execute):
        # A job whose end the engine has not recorded would start again with the next worker.
        wait_for(lambda: len(order) == n and not context.queue.list_active(), 60)
    return order


@pytest.mark.both_databases
def test_worker_takes_runs_in_the_order_of_their_moves(client, context):
    _, ids = add(context)
    client.post(f"/api/runs/{ids[2]}/move", json={"to": "up"})
    client.post(f"/api/runs/{ids[0]}/move", json={"to": "last"})
    assert waiting_ids(context) == [ids[2], ids[1], ids[0]]
    assert take_jobs(context, 3) == [ids[2], ids[1], ids[0]]
    _, first = add(context, 2)
    second_id, second = add(context, 2)
    client.post(f"/api/experiments/{second_id}/move", json={"to": "first"})
    assert waiting_ids(context) == second + first
    client.post(f"/api/experiments/{second_id}/move", json={"to": "last"})
    assert waiting_ids(context) == first + second
    move_experiment(context, second_id, QueueMove.FIRST)
    assert take_jobs(context, 4) == second + first


def test_priority_reorders_runs_but_not_running_or_ended_ones(client, context):
    experiment_id, ids = add(context)
    assert client.put(f"/api/runs/{ids[1]}/priority", json={"priority": 50}).json()["priority"] == 50
    assert waiting_ids(context) == [ids[1], ids[0], ids[2]]
    answer = client.put(f"/api/experiments/{experiment_id}/priority", json={"priority": 70}).json()
    assert [run["priority"] for run in answer["runs"]] == [70, 70, 70]
    refused = client.put(f"/api/runs/{ids[1]}/priority", json={"priority": 3})
    assert (refused.status_code, refused.json()["field"]) == (422, "priority")
    _, ids = add(context, status=models.RunStatus.RUNNING)
    with context.sessions.begin() as session:
        session.get_one(models.Run, ids[1]).status = models.RunStatus.FINISHED
    refused = client.post(f"/api/runs/{ids[0]}/move", json={"to": "first"})
    assert refused.status_code == 409
    assert refused.json()["detail"] == "Only a queued run can be moved in the queue; this one is running."
    refused = client.put(f"/api/runs/{ids[1]}/priority", json={"priority": 50})
    assert refused.json()["detail"] == ("Only a run that has not ended has a place in the queue; this one is finished.")


def test_queue_order_overrides_engine_order(context):
    """As left by a lost worker, or by an earlier version, which enqueued all runs at once."""
    _, ids = add(context, 4)
    for run_id in ids[:3]:
        context.queue.enqueue(Job(job_kinds.FINETUNE, run_id))
    with context.sessions.begin() as session:
        session.get_one(models.Run, ids[2]).priority = session.get_one(models.Run, ids[3]).priority = 20
    enqueue_next(context)
    assert context.queue.list_active() == job_ids(ids[2])
    assert take_jobs(context, 4) == [ids[2], ids[3], ids[0], ids[1]]


def test_engine_holds_one_waiting_job_and_busy_worker_adds_none(context, endless_job):
    _, ids = add(context)
    began, execute = endless_job
    for _ in range(2):
        enqueue_next(context)
        assert context.queue.list_active() == job_ids(ids[0])
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: began)
        enqueue_next(context)
        assert context.queue.list_active() == job_ids(ids[0])
        enqueue_next(context, "other/cpu")
        assert context.queue.read_queue(Queue.GPU) == ({f"finetune-{ids[0]}": "here/cpu"}, job_ids(ids[1]))


@pytest.mark.both_databases
def test_device_takes_as_many_jobs_as_it_has_room_for(context, endless_job):
    _, ids = add(context, 3)
    began, execute = endless_job
    with processing_jobs(context.settings.queue, "here/cpu", execute, runs_at_once=2):
        for n_began in (1, 2):
            enqueue_next(context, max_runs=2)
            wait_for(lambda n_began=n_began: len(began) == n_began)
        enqueue_next(context, max_runs=2)
        assert context.queue.list_active() == job_ids(*ids[:2])
        # Another worker may take a job that was meant for a free device.
        snapshot, job = context.queue.read_queue(Queue.GPU), Job(job_kinds.FINETUNE, ids[2])
        assert not may_start(context.sessions, Device("here/cpu", 2), job, snapshot)
        assert may_start(context.sessions, Device("here/cpu", 2), Job(job_kinds.FINETUNE, ids[0]), snapshot)
        assert may_start(context.sessions, Device("there/cpu", 2), job, snapshot)


def test_memory_of_finished_runs_of_the_model_is_expected_of_the_next(context):
    waiting, *siblings = [
        run_row(seed=seed, config={"model": model}, status=status)
        for seed, (model, status) in enumerate([
            ("a", models.RunStatus.QUEUED), ("a", models.RunStatus.FINISHED), ("a", models.RunStatus.RUNNING),
            ("b", models.RunStatus.FINISHED),
        ])
    ]  # fmt: skip
    add_experiment(context, waiting, *siblings)
    job, encoding = Job(job_kinds.FINETUNE, waiting.id), Job(job_kinds.ENCODE, "row")
    ids = [job.workflow_id, encoding.workflow_id]
    assert read_demands(context.sessions, ids) == {ids[0]: Demand(), ids[1]: Demand(whole_device=True)}
    with context.sessions.begin() as session:
        for run, peak_bytes in zip(siblings, (3, 5, 7), strict=True):
            begin_attempt(session, run.id, "here/cpu")
            session.flush()
            session.get_one(models.Attempt, (run.id, 1)).peak_bytes = peak_bytes
    assert read_demands(context.sessions, ids)[ids[0]] == Demand(peak_bytes=3)


@pytest.mark.parametrize("columns", [{"whole_device": True}, {"config": {"processes": 2}}])
def test_exclusive_run_starts_alone_and_keeps_later_runs_waiting(context, columns):
    _, (first, _) = add(context, 2)
    _, (exclusive,) = add(context, 1, **columns)
    began, ended = [], set()

    async def execute(job):
        began.append(job.row_id)
        while job.row_id not in ended:
            await asyncio.sleep(0.05)
        with context.sessions.begin() as session:
            session.get_one(models.Run, job.row_id).status = models.RunStatus.FINISHED

    with context.sessions.begin() as session:
        session.get_one(models.Run, exclusive).priority = FIRST_PRIORITY + 1
        session.get_one(models.Run, first).priority = FIRST_PRIORITY
    with processing_jobs(context.settings.queue, "here/cpu", execute, runs_at_once=2):
        enqueue_next(context, max_runs=2)
        wait_for(lambda: began == [first])
        for _ in range(2):
            enqueue_next(context, max_runs=2)
        assert context.queue.list_active() == job_ids(first)
        ended.add(first)
        wait_for(lambda: not context.queue.list_active())
        enqueue_next(context, max_runs=2)
        wait_for(lambda: began == [first, exclusive])
        enqueue_next(context, max_runs=2)
        assert context.queue.list_active() == job_ids(exclusive)


def test_worker_resumes_its_job_after_restart(context, endless_job):
    _, ids = add(context)
    began, execute = endless_job
    with worker_loop(context, "here/cpu", execute):
        wait_for(lambda: began)
    assert context.queue.read_queue(Queue.GPU) == ({f"finetune-{ids[0]}": "here/cpu"}, set())
    assert take_jobs(context, 3) == ids


def test_lock_allows_one_enqueuer_and_deferred_jobs_go_last(context):
    _, ids = add(context)
    with FileLocks(context.settings.root / "locks").held("turns"):
        enqueue_next(context)
    assert context.queue.list_active() == set()
    enqueue_next(context, deferred=job_ids(*ids[:2]))
    assert context.queue.list_active() == job_ids(ids[2])


@pytest.mark.parametrize("ended", [False, True])
def test_run_that_engine_considers_over_is_enqueued_again(context, ended):
    _, ids = add(context)
    job = Job(job_kinds.FINETUNE, ids[0])
    context.queue.enqueue(job)
    if ended:
        context.queue.cancel(job)
    enqueue_next(context)
    assert context.queue.list_active() == job_ids(ids[0])


def test_encodings_go_before_waiting_runs(context):
    _, ids = add(context, 2)
    encoding_id = add_encoding(context)
    with context.sessions.begin() as session:
        session.get_one(models.Encoding, encoding_id).status = models.EncodingStatus.QUEUED
    order = [f"encode-{encoding_id}", *(f"finetune-{run_id}" for run_id in ids)]
    for i, workflow_id in enumerate(order):
        assert next_waiting_job(context.sessions, Queue.GPU, order[:i]).workflow_id == workflow_id
    assert next_waiting_job(context.sessions, Queue.GPU, order) is None


@pytest.mark.parametrize(("priorities", "index", "changed"), [
    ([], 0, [("x", 100)]), ([100, 100], 0, [("x", 99)]),
    ([FIRST_PRIORITY, 100], 0, [("x", FIRST_PRIORITY), ("0", FIRST_PRIORITY + 1), ("1", 101)]),
    ([100, 100], 2, [("x", 101)]), ([100, 102], 1, [("x", 101)]), ([100, 101], 1, [("x", 101), ("1", 102)]),
    ([100, 100, 100], 1, [("x", 101), ("1", 102), ("2", 102)]),
])  # fmt: skip
def test_renumbering_changes_fewest_priorities(priorities, index, changed):
    turns = [RunPriority(str(i), priority) for i, priority in enumerate(priorities)]
    assert renumber(["x"], turns, index) == changed


def test_moved_run_keeps_order_of_others(context, client):
    _, ids = add(context, 6)
    order = list(ids)
    moves = [
        (ids[5], "up", 4), (ids[5], "up", 3), (ids[0], "down", 1), (ids[2], "first", 0), (ids[2], "last", 5),
        (ids[2], "down", 5), (ids[0], "last", 5),
    ]  # fmt: skip
    for run_id, destination, new in moves:
        order.remove(run_id)
        order.insert(new, run_id)
        assert client.post(f"/api/runs/{run_id}/move", json={"to": destination}).json()["status"] == "queued"
        assert waiting_ids(context) == order
    with context.sessions() as session:
        assert min(session.scalars(select(models.Run.priority))) >= FIRST_PRIORITY


@pytest.mark.both_databases
def test_concurrent_moves_lose_no_move(context):
    _, ids = add(context, 8)
    peer = create_context(context.settings)
    moves = [(context, ids[5], QueueMove.FIRST), (peer, ids[2], QueueMove.FIRST), (context, ids[7], QueueMove.UP)]
    moves += [(peer, ids[0], QueueMove.LAST), (context, ids[1], QueueMove.LAST), (peer, ids[3], QueueMove.DOWN)]
    with ThreadPoolExecutor(len(moves)) as threads:
        done = [threads.submit(move_run, *move) for move in moves]
    assert [future.exception() for future in done] == [None] * len(moves)
    peer.close()
    order = waiting_ids(context)
    assert sorted(order) == sorted(ids)
    assert {ids[5], ids[2]} <= set(order[:3])
    assert {ids[0], ids[1]} <= set(order[-3:])
    assert take_jobs(context, 8) == order


@pytest.fixture
def row_ids(context):
    ids = []
    for i in range(3):
        with context.sessions.begin() as session:
            session.merge(models.StoredFile(sha256="0" * 64, size_bytes=1))
            session.flush()
            files = [models.EmbeddingFile(position=0, filename="e.npy", file_sha256="0" * 64)]
            session.add(row := models.Embedding(name=f"e{i}", filename="e.npy", files=files, format="npy"))
        ids.append(row.id)
    return ids


@pytest.mark.both_databases
def test_unknown_or_dropped_rows_are_enqueued_once_in_order(context, row_ids):
    assert list_waiting_jobs(context.sessions) == [Job(job_kinds.INSPECT, run_id) for run_id in row_ids]
    reconcile(context.sessions, context.queue, set())
    assert context.queue.list_active() == {f"inspect-{run_id}" for run_id in row_ids}
    for _ in range(2):
        assert reconcile(context.sessions, context.queue, set()) == set()
    assert len(context.queue.list_active()) == 3
    job = Job(job_kinds.INSPECT, row_ids[0])
    reconcile(context.sessions, context.queue, set())
    context.queue.cancel(job)
    assert job.workflow_id not in context.queue.list_active()
    reconcile(context.sessions, context.queue, set())
    assert job.workflow_id in context.queue.list_active()


def test_waiting_job_is_kept_and_job_of_final_row_cancelled(context, row_ids):
    job = Job(job_kinds.INSPECT, row_ids[0])
    context.queue.enqueue(job)
    context.queue.ensure_enqueued(job)
    assert context.queue.list_active() == {job.workflow_id}
    reconcile(context.sessions, context.queue, set())
    with context.sessions.begin() as session:
        session.get(models.Embedding, row_ids[0]).status = models.EmbeddingStatus.FAILED
    unwanted = reconcile(context.sessions, context.queue, set())
    assert unwanted == {f"inspect-{row_ids[0]}"}
    assert unwanted < context.queue.list_active()
    reconcile(context.sessions, context.queue, unwanted)
    assert context.queue.list_active() == {f"inspect-{run_id}" for run_id in row_ids[1:]}


@pytest.fixture
def dead_worker(context, row_ids, endless_job):
    """Start an endless job on the worker here/cpu, which then dies."""
    began, execute = endless_job
    context.queue.enqueue(Job(job_kinds.INSPECT, row_ids[0]))
    with processing_jobs(context.settings.queue, "here/cpu", execute):
        wait_for(lambda: began)
    return endless_job


@pytest.mark.both_databases
def test_jobs_of_dead_worker_go_to_another(context, row_ids, dead_worker, tmp_path):
    began, execute = dead_worker
    assert context.queue.list_worker_slots() == {"here/cpu"}

    locks = FileLocks(tmp_path)
    free = requeue_jobs_of_dead_workers(context.queue, "here/cuda:0", locks, set())
    assert free == {"here/cpu"}
    assert context.queue.list_worker_slots() == {"here/cpu"}, "a slot may be free for a moment"
    with locks.held("here/cpu"):
        assert requeue_jobs_of_dead_workers(context.queue, "here/cuda:0", locks, free) == set()
    assert context.queue.list_worker_slots() == {"here/cpu"}, "a worker lives while its slot is held"

    requeue_jobs_of_dead_workers(context.queue, "here/cuda:0", locks, free)
    with processing_jobs(context.settings.queue, "here/cuda:0", execute):
        wait_for(lambda: len(began) == 2)
    assert began == [row_ids[0]] * 2
    assert context.queue.list_worker_slots() == {"here/cuda:0"}


@pytest.mark.usefixtures("dead_worker")
def test_reopened_session_declares_no_worker_dead(context, tmp_path):
    class Reopened(FileLocks):
        """Locks whose session is lost while one is requested, as in PostgreSQL."""

        settled = iter([True, False])

        @property
        def is_settled(self) -> bool:
            return next(self.settled)

    assert requeue_jobs_of_dead_workers(context.queue, "here/cuda:0", Reopened(tmp_path), {"here/cpu"}) == set()
    assert context.queue.list_worker_slots() == {"here/cpu"}
