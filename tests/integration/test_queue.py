import asyncio
import re
from datetime import timedelta

import pytest

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Experiment, ExperimentOrigin, FailureCause, Phase, Run, RunStatus, Step, Worker
from app.db.models.runs import RunningJob
from app.db.types import utcnow
from app.db.work import list_waiting_jobs, pause_waiting_runs
from tests.factories import add_experiment, run_row
from tests.job_loops import worker_loop
from tests.waiting import wait_for
from workers.locks import Heartbeat
from workers.placement import Device
from workers.reconciler import reconcile
from workers.training.job import fine_tune
from workers.training.progress import Progress, RunStoppedError

QUEUED = {"status": RunStatus.QUEUED}
PAUSED = {"status": RunStatus.PAUSED}


def add_runs(context, *runs, name="e"):
    plain = {"performance": None, "isoscore_star": None}
    rows = [run_row(seed=seed, **plain | columns) for seed, columns in enumerate(runs)]
    return add_experiment(context, *rows, name=name), [run.id for run in rows]


def running(worker):
    now = utcnow()
    return {"status": RunStatus.RUNNING, "worker": worker, "phase": Phase.TRAINING, "phase_done": 40,
            "phase_total": 300, "started_at": now - timedelta(minutes=5)}  # fmt: skip


def add_worker(context, slot, seconds_ago, jobs=()):
    now = utcnow() - timedelta(seconds=seconds_ago)
    with context.sessions.begin() as session:
        session.add(Worker(slot=slot, device="cpu", pid=1, started_at=now, heartbeat_at=now, memory_bytes=8_000_000_000,
                           jobs=list(jobs)))  # fmt: skip


def words(page):
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_worker_shows_jobs_progress_and_memory(client, context):
    _, (run_id,) = add_runs(context, running("here/cpu"), name="sweep")
    since = utcnow().isoformat()
    add_worker(context, "here/cpu", 5, [
        {"id": f"finetune-{run_id}", "since": since, "memory_bytes": 1_200_000_000, "peak_bytes": 1_500_000_000},
        {"id": "measure-x", "since": since, "memory_bytes": None, "peak_bytes": None},
    ])  # fmt: skip
    page = client.get("/queue").text
    assert "I-STAR, λ = 1, seed 0 of sweep , started 5 minutes ago training, step 40 of 300" in words(page)
    assert "connected" in page
    assert '<a href="/embeddings/x">measures an embedding</a> <small>started ' in page
    assert "1.20 GB at most 1.50 GB – of 8.00 GB" in words(page)
    queue = client.get("/api/queue").json()
    assert [(job["id"], job["phase_done"], job["worker"]) for job in queue["running"]] == [(run_id, 40, "here/cpu")]
    (worker,) = queue["workers"]
    assert (worker["alive"], worker["memory_bytes"]) == (True, 8_000_000_000)
    expected = [("finetune", run_id, 1_500_000_000), ("measure", "x", None)]
    assert [(job["kind"], job["row_id"], job["peak_bytes"]) for job in worker["jobs"]] == expected


@pytest.mark.parametrize(("seconds", "lost"), [(50, False), (70, True)])
def test_run_is_lost_after_a_minute_without_heartbeat(client, context, seconds, lost):
    add_runs(context, running("here/cpu"))
    add_worker(context, "here/cpu", seconds)
    assert ("worker lost" in client.get("/queue").text) is lost


def test_header_shows_running_waiting_and_time_left(client, context):
    assert "Queue: no worker running" in words(client.get("/queue/status").text)
    add_worker(context, "here/cpu", 5)
    assert "Queue: empty" in words(client.get("/queue/status").text)
    add_runs(context, QUEUED, QUEUED, name="unknown time")
    assert words(client.get("/queue/status").text).strip() == "Queue: 2 waiting"
    finished_run = {"started_at": utcnow() - timedelta(seconds=500), "finished_at": utcnow() - timedelta(seconds=100)}
    experiment_id, _ = add_runs(context, finished_run, running("here/cpu"), QUEUED)
    status = client.get("/queue/status").text
    assert words(status).strip() == "Queue: 1 running, 3 waiting"
    assert '<span role="status"' in status
    rows = {row["id"]: row for row in client.get("/api/queue").json()["experiments"]}
    assert (rows[experiment_id]["running"], rows[experiment_id]["queued"]) == (1, 1)
    assert rows[experiment_id]["seconds_left"] == pytest.approx(400 + 300 * 260 / 40, abs=10)
    client.post("/queue/pause")
    add_runs(context, finished_run, *[QUEUED] * 6)
    assert words(client.get("/queue/status").text).strip() == "Queue: 6 waiting · about 40 minutes left"


def test_waiting_runs_are_listed_by_priority(client, context):
    add_runs(context, running("gone/cpu"), name="sweep")
    assert "Without a worker I-STAR, λ = 1, seed 0 of sweep: worker lost" in words(client.get("/queue").text)
    _, ids = add_runs(context, *[QUEUED] * 52, QUEUED | {"priority": 20})
    first = client.get("/queue").text
    assert "53 runs waiting. Lower priority numbers run first" in first
    for page, listed in ((1, [ids[52], *ids[:49]]), (2, ids[49:52]), (9, ids[49:52])):
        assert re.findall(r'<tr id="run-(\w+)">', client.get(f"/queue?page={page}").text) == listed
    assert 'href="/queue?page=2"' in first
    queue = client.get("/api/queue?limit=2&offset=1").json()
    assert ([job["id"] for job in queue["waiting"]], queue["waiting_total"]) == (ids[:2], 53)


@pytest.mark.both_databases
def test_experiments_are_counted_and_moved(client, context):
    first_id, _ = add_runs(context, QUEUED, running("here/cpu"), PAUSED, name="first")
    second_id, _ = add_runs(context, QUEUED, {"status": RunStatus.FINISHED}, name="second")
    rows = client.get("/api/queue").json()["experiments"]
    expected = [("first", 1, 1, 1), ("second", 0, 1, 0)]
    assert [(row["name"], row["running"], row["queued"], row["paused"]) for row in rows] == expected
    page = client.get("/queue").text
    for url in (f"/experiments/{first_id}/pause", f"/experiments/{first_id}/resume", "/queue/pause", "/queue/resume"):
        assert f'action="{url}"' in page
    assert client.post(f"/experiments/{second_id}/move/first", data={"back": "queue"}).headers["location"] == "/queue"
    assert [experiment["name"] for experiment in client.get("/api/queue").json()["experiments"]] == ["second", "first"]


def test_destructive_buttons_are_in_menus_and_buttons_lead_back(client, context):
    experiment_id, (run_id,) = add_runs(context, QUEUED, name="sweep")
    page = client.get("/queue").text
    menus = re.findall(r'<details class="menu" name="menu">.*?</details>', page, re.DOTALL)
    expected = ["sweep", "I-STAR, λ = 1, seed 0, of sweep"]
    assert [re.search(r'aria-label="More: (.*?)"', menu_html)[1] for menu_html in menus] == expected
    for menu, noun in zip(menus, (f"/experiments/{experiment_id}", f"/runs/{run_id}"), strict=True):
        assert re.search(rf'action="{noun}\w*/cancel"', menu)
        assert '<button class="link bad"' in menu
    assert "/cancel" not in re.sub(r'<details class="menu".*?</details>', "", page, flags=re.DOTALL)
    _, (run_id, _) = add_runs(context, QUEUED, QUEUED)
    for back, url in (("queue", "/queue"), ("", f"/runs/{run_id}")):
        for verb in ("move/last", "pause", "resume"):
            answer = client.post(f"/runs/{run_id}/{verb}", data={"back": back})
            assert (answer.status_code, answer.headers["location"]) == (303, url), verb
    for path in ("/queue/pause", "/queue/resume"):
        assert client.post(path).headers["location"] == "/queue"
    assert client.post(f"/runs/{run_id}/cancel").headers["location"] == f"/runs/{run_id}"
    assert client.post(f"/runs/{run_id}/retry").headers["location"] == f"/runs/{run_id}"


def test_heartbeat_records_memory_and_jobs(context):
    job = RunningJob(id="measure-x", since=utcnow(), memory_bytes=1, peak_bytes=2)
    with Heartbeat(context.sessions, Device("here/cpu"), lambda: [job]), context.sessions() as session:
        row = session.get_one(Worker, "here/cpu")
        assert row.jobs == [job]
        assert row.memory_bytes > 100_000_000


def add(context, *states, origin=ExperimentOrigin.LAUNCHED):
    columns = {"performance": None, "isoscore_star": None}
    runs = [run_row(seed=seed, status=RunStatus(status), **columns) for seed, status in enumerate(states)]
    return add_experiment(context, *runs, name="e", origin=ExperimentOrigin(origin)), [run.id for run in runs]


def states_of(context, ids):
    with context.sessions() as session:
        return [session.get_one(Run, run_id).status.value for run_id in ids]


def are_waiting(context, *ids):
    return {job.row_id for job in list_waiting_jobs(context.sessions)} == set(ids)


def test_queued_run_is_paused_and_resumed(client, context):
    _, ids = add(context, "queued", "queued")
    context.queue.enqueue(Job(job_kinds.FINETUNE, ids[0]))  # a worker is about to take it
    assert client.post(f"/api/runs/{ids[0]}/pause").json()["status"] == "paused"
    assert context.queue.list_active() == set()
    assert are_waiting(context, ids[1])
    assert client.post(f"/api/runs/{ids[0]}/resume").json()["status"] == "queued"
    assert are_waiting(context, *ids)


def test_pause_takes_running_run_from_its_worker(client, context):
    _, (run_id,) = add(context, "queued")
    began, ended = [], []

    async def execute(job):
        with context.sessions.begin() as session:
            run = session.get_one(Run, job.row_id)
            run.status, run.worker, run.phase, run.phase_done = RunStatus.RUNNING, "here/cpu", Phase.TRAINING, 4
        began.append(job.row_id)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(job.row_id)

    with worker_loop(context, "here/cpu", execute):
        wait_for(lambda: began)
        paused = client.post(f"/api/runs/{run_id}/pause").json()
        assert [paused[name] for name in ("status", "worker", "phase", "phase_done")] == ["paused", None, None, 0]
        wait_for(lambda: ended)
        client.post(f"/api/runs/{run_id}/resume")
        wait_for(lambda: len(began) == 2)
    assert began == [run_id] * 2


@pytest.mark.both_databases
def test_immediate_resume_starts_run_again(client, context):
    """The trainer reads its status in its row before the engine tells the worker."""
    _, (run_id,) = add(context, "queued")
    began = []

    def status(*, begin=False):
        with context.sessions.begin() as session:
            run = session.get_one(Run, run_id)
            run.status = RunStatus.RUNNING if begin else run.status
            return run.status

    async def execute(job):
        began.append(job.row_id)
        status(begin=True)
        while status() is RunStatus.RUNNING:
            await asyncio.sleep(0.05)

    with worker_loop(context, "here/cpu", execute):
        wait_for(lambda: began)
        client.post(f"/api/runs/{run_id}/pause")
        client.post(f"/api/runs/{run_id}/resume")
        wait_for(lambda: len(began) == 2, 30)
        assert context.queue.list_active() == {f"finetune-{run_id}"}
        client.post(f"/api/runs/{run_id}/pause")
    assert began == [run_id] * 2


def test_run_of_lost_machine_is_paused_and_resumed_on_another(client, context):
    _, (run_id,) = add(context, "queued")
    began = []

    async def execute(job):
        began.append(job.row_id)
        with context.sessions.begin() as session:
            run = session.get_one(Run, job.row_id)
            run.status, run.worker = RunStatus.RUNNING, "lost/cpu"
        await asyncio.Event().wait()

    with worker_loop(context, "lost/cpu", execute):
        wait_for(lambda: began)
    assert context.queue.list_worker_slots() == {"lost/cpu"}, "a lost worker releases nothing"
    paused = client.post(f"/api/runs/{run_id}/pause").json()
    assert (paused["status"], paused["worker"]) == ("paused", None)
    assert (context.queue.list_worker_slots(), context.queue.list_active()) == (set(), set())
    with pytest.raises(RunStoppedError):  # if it comes back after all
        Progress(context.sessions, run_id, "lost/cpu").enter(Phase.TRAINING, total=10)
    again = client.post(f"/api/runs/{run_id}/pause")
    assert again.json()["detail"] == "Only a queued or running run can be paused; this one is paused."

    async def execute_here(job):
        began.append(f"here {job.row_id}")

    client.post(f"/api/runs/{run_id}/resume")
    with worker_loop(context, "here/cpu", execute_here):
        wait_for(lambda: len(began) == 2)
    assert began == [run_id, f"here {run_id}"]


@pytest.mark.both_databases
def test_missed_pause_is_sent_to_engine_later(context):
    _, (run_id,) = add(context, "queued")
    context.queue.enqueue(Job(job_kinds.FINETUNE, run_id))
    with context.sessions.begin() as session:
        session.get_one(Run, run_id).status = RunStatus.PAUSED
    reconcile(context.sessions, context.queue, reconcile(context.sessions, context.queue, set()))
    assert context.queue.list_active() == set()


def test_pausing_experiment_leaves_ended_runs(client, context):
    experiment_id, ids = add(context, "queued", "running", "finished", "failed", "paused")
    assert client.post(f"/api/experiments/{experiment_id}/pause").json()["status"] == "paused"
    assert states_of(context, ids) == ["paused", "paused", "finished", "failed", "paused"]
    assert client.post(f"/api/experiments/{experiment_id}/resume").json()["status"] == "running"
    assert states_of(context, ids) == ["queued", "queued", "finished", "failed", "queued"]
    assert are_waiting(context, ids[0], ids[1], ids[4])


@pytest.mark.both_databases
def test_all_runs_are_paused_and_resumed(client, context):
    _, first = add(context, "queued", "running")
    _, second = add(context, "queued", "cancelled")
    assert client.post("/api/queue/pause").json() == {"runs": 3}
    assert states_of(context, first + second) == ["paused", "paused", "paused", "cancelled"]
    assert are_waiting(context)
    assert client.post("/api/queue/resume").json() == {"runs": 3}
    assert states_of(context, first + second) == ["queued", "queued", "queued", "cancelled"]
    assert client.post("/api/queue/resume").json() == {"runs": 0}


def test_paused_run_can_be_cancelled_and_invalid_states_refuse(client, context):
    _, (run_id,) = add(context, "paused")
    assert client.post(f"/api/runs/{run_id}/cancel").json()["status"] == "cancelled"
    assert states_of(context, [run_id]) == ["cancelled"]
    cases = [
        ("finished", "pause", "Only a queued or running run can be paused; this one is finished."),
        ("queued", "resume", "Only a paused run can be resumed; this one is queued."),
        ("finished", "retry", "Only a failed or cancelled run can be tried again; this one is finished."),
        ("finished", "cancel", "Only a run that has not ended can be cancelled; this one is finished."),
    ]  # fmt: skip
    for status, verb, sentence in cases:
        _, (run_id,) = add(context, status)
        refused = client.post(f"/api/runs/{run_id}/{verb}")
        assert (refused.status_code, refused.json()["detail"]) == (409, sentence)
        assert states_of(context, [run_id]) == [status]
    for origin in ["imported", "logged"]:
        _, (run_id,) = add(context, "failed", origin=origin)
        refused = client.post(f"/api/runs/{run_id}/retry")
        expected = (409, f"Only a run that was launched here can be tried again; this one was {origin}.")
        assert (refused.status_code, refused.json()["detail"]) == expected
    for path in ("runs/none/pause", "runs/none/resume", "runs/none/retry", "experiments/none/pause"):
        assert client.post(f"/api/{path}").status_code == 404


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_retried_run_is_queued_as_new(client, context, status):
    _, (run_id,) = add(context, status)
    with context.sessions.begin() as session:
        run = session.get_one(Run, run_id)
        run.error, run.cause, run.error_field, run.attempts = "Why.", FailureCause.MEMORY, "batch_size", 5
        run.finished_at, run.worker = utcnow(), "here/cpu"
    again = client.post(f"/api/runs/{run_id}/retry").json()
    expected = ["queued", None, None, None, None]
    assert [again[name] for name in ("status", "error", "cause", "error_field", "worker")] == expected
    with context.sessions() as session:
        assert session.get_one(Run, run_id).attempts == 0
    assert are_waiting(context, run_id)


def test_run_time_stands_still_while_paused(client, context):
    _, (run_id, waiting) = add(context, "running", "queued")
    with context.sessions.begin() as session:
        session.get_one(Run, run_id).started_at = utcnow() - timedelta(seconds=90)
    assert client.post(f"/api/runs/{waiting}/pause").json()["seconds"] is None
    seconds = client.post(f"/api/runs/{run_id}/pause").json()["seconds"]
    assert 90 <= seconds < 150
    with context.sessions.begin() as session:  # as if that had been an hour ago
        run = session.get_one(Run, run_id)
        run.started_at, run.finished_at = run.started_at - timedelta(hours=1), run.finished_at - timedelta(hours=1)
    for verb in ("resume", "pause", "resume", "cancel"):
        assert client.post(f"/api/runs/{run_id}/{verb}").json()["seconds"] == pytest.approx(seconds)


def fail(context, run_id, cause=FailureCause.UNSPECIFIED, step=None):
    with context.sessions.begin() as session:
        if step is not None:
            session.add(Step(run_id=run_id, step=step))
        run = session.get_one(Run, run_id)
        run.status, run.cause, run.error = RunStatus.FAILED, cause, "It broke."
        session.flush()
        pause_waiting_runs(session, run)


def test_first_early_failure_holds_other_runs(context):
    cases = [
        (["running", "queued", "queued"], FailureCause.UNSPECIFIED, None, ["paused", "paused"],
         "failed before its first"),
        (["running", "queued", "running"], FailureCause.UNSPECIFIED, 0, ["paused", "running"],
         "failed before its first"), (["running", "queued"], FailureCause.MEMORY, 7, ["paused"], "ran out of memory"),
        (["running", "queued"], FailureCause.KILLED, 7, ["paused"], "was killed repeatedly"),
        (["running", "queued"], FailureCause.NOT_A_NUMBER, 7, ["queued"], None),
        (["running", "queued", "finished"], FailureCause.MEMORY, 7, ["queued", "finished"], None),
        (["running", "queued", "failed"], FailureCause.UNSPECIFIED, None, ["queued", "failed"], None),
        (["running"], FailureCause.UNSPECIFIED, None, [], None),
    ]  # fmt: skip
    for states, cause, step, after, reason in cases:
        experiment_id, ids = add(context, *states)
        fail(context, ids[0], cause, step)
        assert states_of(context, ids[1:]) == after
        with context.sessions() as session:
            held = session.get_one(Experiment, experiment_id).held
        assert (held is None) if reason is None else (reason in held and held.endswith("It broke."))


def test_held_runs_resume_and_are_not_held_again(client, context):
    experiment_id, ids = add(context, "queued", "queued", "queued")
    fine_tune(ids[0], context.settings, "cpu")  # its data set has no files
    assert states_of(context, ids) == ["failed", "paused", "paused"]
    held = client.get(f"/api/experiments/{experiment_id}").json()["held"]
    assert held.startswith("The first run failed before its first step, so the others wait. ")
    page = client.get(f"/experiments/{experiment_id}").text
    assert ">Run the rest anyway</button>" in page
    assert "Resume all" not in page
    client.post(f"/runs/{ids[0]}/retry")
    with context.sessions() as session:
        assert session.get_one(Experiment, experiment_id).held == held, "a retry does not resume the others"
    fail(context, ids[0])
    client.post(f"/experiments/{experiment_id}/resume")
    assert client.get(f"/api/experiments/{experiment_id}").json()["held"] is None
    fail(context, ids[1])
    assert states_of(context, ids) == ["failed", "failed", "queued"]
