"""Many concurrent clients of a dashboard, and the time of the slowest."""

import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx2

from app.context import create_context
from tests.archives import add_experiment, large_archive
from tests.script_runs import RUN
from tests.serving import web_process
from tests.waiting import patience

WRITERS = 15
ANSWERED_SECONDS = 2.0


def slowest_health(url, until):
    longest = 0.0
    with httpx2.Client(base_url=url, timeout=30) as client:
        while not until.wait(0.1):
            for path in ("/api/health", "/static/app.css"):
                begun = time.monotonic()
                assert client.get(path).status_code == 200
                longest = max(longest, time.monotonic() - begun)
    return longest


def read_while_writers_wait(settings, *, seconds):
    """Lock SQLite while sixty clients write; return the seconds of the slowest reader."""

    def write(number):
        return httpx2.post(f"{url}/api/runs", json=RUN | {"experiment": f"writer {number}"}, timeout=120).status_code

    with web_process(settings) as url, ThreadPoolExecutor(60) as writers, closing(
        sqlite3.connect(settings.root / "isoscope.sqlite", isolation_level=None)
    ) as connection, httpx2.Client(base_url=url, timeout=60) as reader:  # fmt: skip
        connection.execute("BEGIN IMMEDIATE")
        begun, slowest = time.monotonic(), 0.0
        answers = [writers.submit(write, number) for number in range(60)]
        time.sleep(0.5)
        while time.monotonic() - begun < seconds:
            for path in ("/api/health", "/experiments"):
                sent_at = time.monotonic()
                assert reader.get(path).status_code == 200
                slowest = max(slowest, time.monotonic() - sent_at)
        assert not any(answer.done() for answer in answers)
        connection.execute("ROLLBACK")
        assert slowest < ANSWERED_SECONDS * patience()
        assert {answer.result() for answer in answers} == {201}
    return slowest


def import_among_writers(server, source_settings, tmp_path, *, steps, kill, figures=None):
    context = create_context(source_settings)
    path = large_archive(context, add_experiment(context), tmp_path / "large.zip", steps)
    context.close()
    run = {"experiment": "mine", "dataset": "d", "model": "m", "task": "classification", "metric": "accuracy"}
    runs = [server.post("/api/runs", json=run | {"seed": seed})["id"] for seed in range(WRITERS)]
    done = threading.Event()
    with ThreadPoolExecutor(WRITERS + 1) as threads:
        health = threads.submit(slowest_health, server.url, done)
        writers = [threads.submit(_write_until, server.url, run, done) for run in runs]
        try:
            with path.open("rb") as file:
                sent = server.post("/api/experiments/import", files={"file": file})
            import_url = f"/api/imports/{sent['id']}"
            server.wait_for(lambda: server.get(import_url)["done"] > steps / 10, "the first rows", 120 * patience())
            if kill:
                server.child("multiprocessing.forkserver").send_signal(signal.SIGKILL)
            while (state := server.get(import_url))["status"] == "running":
                visible = [row["name"] for row in server.get("/api/experiments")]
                assert visible == ["mine"] or server.get(import_url)["status"] == "finished"
                time.sleep(0.3)
        finally:
            done.set()
        written, longest = zip(*(writer.result() for writer in writers), strict=True)
    assert (state["status"], state["done"]) == ("finished", state["total"])
    assert min(written) > 0
    assert max(longest) < 3 * patience()
    assert health.result() < ANSWERED_SECONDS * patience()
    experiment = server.get(f"/api/experiments/{state['experiment_id']}")
    logged = [len(server.get(f"/api/runs/{run['id']}")["steps"]) for run in experiment["runs"][:2]]
    assert sum(logged) == 2 * (steps // len(experiment["runs"]))
    assert "heartbeat could not be written" not in server.log()
    if figures is not None:
        figures.append(f"import of {steps:,} steps: slowest write of {WRITERS} others {max(longest):.2f} s, "
                       f"slowest health and static file {health.result():.2f} s")  # fmt: skip


def _write_until(url, run, done):
    step, longest = 0, 0.0
    with httpx2.Client(base_url=url, timeout=60) as client:
        while not done.wait(0.2):
            step += 1
            begun = time.monotonic()
            answer = client.post(f"/api/runs/{run}/steps", json={"steps": [{"step": step, "task_loss": 1.0}]})
            assert answer.is_success, answer.text
            longest = max(longest, time.monotonic() - begun)
    return step, longest
