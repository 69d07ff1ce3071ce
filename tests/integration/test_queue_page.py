import re
from datetime import timedelta

import pytest
from sqlalchemy import event

from app.db.models import Phase, RunStatus, Worker
from app.db.models.runs import RunningJob
from app.db.types import utcnow
from tests.factories import add_experiment, run_row
from workers.locks import Heartbeat
from workers.placement import Device


def add(context, *runs, name="e"):
    plain = {"performance": None, "isoscore_star": None}
    rows = [run_row(seed=seed, **plain | columns) for seed, columns in enumerate(runs)]
    return add_experiment(context, *rows, name=name), [run.id for run in rows]


QUEUED = {"status": RunStatus.QUEUED}
PAUSED = {"status": RunStatus.PAUSED}


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
    _, (run_id,) = add(context, running("here/cpu"), name="sweep")
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
    add(context, running("here/cpu"))
    add_worker(context, "here/cpu", seconds)
    assert ("worker lost" in client.get("/queue").text) is lost


def test_header_shows_running_waiting_and_time_left(client, context):
    assert "Queue: no worker running" in words(client.get("/queue/status").text)
    add_worker(context, "here/cpu", 5)
    assert "Queue: empty" in words(client.get("/queue/status").text)
    add(context, QUEUED, QUEUED, name="unknown time")
    assert words(client.get("/queue/status").text).strip() == "Queue: 2 waiting"
    took_400_seconds = {
        "started_at": utcnow() - timedelta(seconds=500),
        "finished_at": utcnow() - timedelta(seconds=100),
    }
    experiment_id, _ = add(context, took_400_seconds, running("here/cpu"), QUEUED)
    status = client.get("/queue/status").text
    assert words(status).strip() == "Queue: 1 running, 3 waiting"
    assert '<span role="status"' in status
    rows = {row["id"]: row for row in client.get("/api/queue").json()["experiments"]}
    assert (rows[experiment_id]["running"], rows[experiment_id]["queued"]) == (1, 1)
    assert rows[experiment_id]["seconds_left"] == pytest.approx(400 + 300 * 260 / 40, abs=10)
    client.post("/queue/pause")
    add(context, took_400_seconds, *[QUEUED] * 6)
    assert words(client.get("/queue/status").text).strip() == "Queue: 6 waiting · about 40 minutes left"


def test_waiting_runs_are_listed_by_priority(client, context):
    add(context, running("gone/cpu"), name="sweep")
    assert "Without a worker I-STAR, λ = 1, seed 0 of sweep: worker lost" in words(client.get("/queue").text)
    _, ids = add(context, *[QUEUED] * 52, QUEUED | {"priority": 20})
    first = client.get("/queue").text
    assert "53 runs waiting. Lower priority numbers run first" in first
    listed = re.findall(r'<tr id="run-(\w+)">', first)
    assert listed == [ids[52], *ids[:49]]
    assert re.findall(r'<tr id="run-(\w+)">', client.get("/queue?page=2").text) == ids[49:52]
    assert 'href="/queue?page=2"' in first
    queue = client.get("/api/queue?limit=2&offset=1").json()
    assert ([job["id"] for job in queue["waiting"]], queue["waiting_total"]) == (ids[:2], 53)


@pytest.mark.both_databases
def test_experiments_are_counted_and_moved(client, context):
    first_id, _ = add(context, QUEUED, running("here/cpu"), PAUSED, name="first")
    second_id, _ = add(context, QUEUED, {"status": RunStatus.FINISHED}, name="second")
    rows = client.get("/api/queue").json()["experiments"]
    expected = [("first", 1, 1, 1), ("second", 0, 1, 0)]
    assert [
        (experiment["name"], experiment["running"], experiment["queued"], experiment["paused"]) for experiment in rows
    ] == expected
    page = client.get("/queue").text
    for url in (f"/experiments/{first_id}/pause", f"/experiments/{first_id}/resume", "/queue/pause", "/queue/resume"):
        assert f'action="{url}"' in page
    assert client.post(f"/experiments/{second_id}/move/first", data={"back": "queue"}).headers["location"] == "/queue"
    assert [experiment["name"] for experiment in client.get("/api/queue").json()["experiments"]] == ["second", "first"]


def test_destructive_buttons_are_in_menus_and_buttons_lead_back(client, context):
    experiment_id, (run_id,) = add(context, QUEUED, name="sweep")
    page = client.get("/queue").text
    menus = re.findall(r'<details class="menu" name="menu">.*?</details>', page, re.DOTALL)
    expected = ["sweep", "I-STAR, λ = 1, seed 0, of sweep"]
    assert [re.search(r'aria-label="More: (.*?)"', menu_html)[1] for menu_html in menus] == expected
    for menu, noun in zip(menus, (f"/experiments/{experiment_id}", f"/runs/{run_id}"), strict=True):
        assert re.search(rf'action="{noun}\w*/cancel"', menu)
        assert '<button class="link bad"' in menu
    assert "/cancel" not in re.sub(r'<details class="menu".*?</details>', "", page, flags=re.DOTALL)
    experiment_id, (run_id, _) = add(context, QUEUED, QUEUED)
    urls = {"queue": "/queue", "experiment": f"/experiments/{experiment_id}", "": f"/runs/{run_id}"}
    for back, url in urls.items():
        for verb in ("move/last", "pause", "resume"):
            answer = client.post(f"/runs/{run_id}/{verb}", data={"back": back})
            assert (answer.status_code, answer.headers["location"]) == (303, url), verb
    for path in ("/queue/pause", "/queue/resume"):
        assert client.post(path).headers["location"] == "/queue"
    assert client.post(f"/runs/{run_id}/cancel").headers["location"] == f"/runs/{run_id}"
    assert client.post(f"/runs/{run_id}/retry").headers["location"] == f"/runs/{run_id}"


def test_number_of_queries_does_not_grow_with_runs(client, context):
    def queries():
        statements = []
        bind = context.sessions.kw["bind"]
        event.listen(bind, "after_cursor_execute", note := lambda *arguments: statements.append(arguments[2]))
        client.get("/queue")
        event.remove(bind, "after_cursor_execute", note)
        return len(statements)

    add(context, QUEUED, running("here/cpu"))
    add_worker(context, "here/cpu", 1)
    few_queries = queries()
    for _ in range(5):
        add(context, *[QUEUED] * 40, running("here/cpu"), PAUSED)
    assert queries() == few_queries


def test_heartbeat_records_memory_and_jobs(context):
    job = RunningJob(id="measure-x", since=utcnow(), memory_bytes=1, peak_bytes=2)
    with Heartbeat(context.sessions, Device("here/cpu"), lambda: [job]), context.sessions() as session:
        row = session.get_one(Worker, "here/cpu")
        assert row.jobs == [job]
        assert row.memory_bytes > 100_000_000
