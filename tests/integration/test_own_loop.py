import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from app.db.models import RunStatus
from app.main import create_app
from isoscope.track import ENDED_SILENTLY, log_run
from tests.ports import free_port
from tests.serving import serve_in_thread, web_process
from tests.waiting import wait_for

DOCUMENT = Path(__file__).parents[2] / "docs" / "own_loop.md"
RUN = {"dataset": "words", "model": "mine", "metric": "accuracy", "seed": 0}


def run_script(text, address, folder):
    environment = os.environ | {"ISOSCOPE_URL": address, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd=folder, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip


def find_example(number):
    return re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)[number]


def fetch_run(address, line):
    return httpx2.get(f"{address}/api/runs/{line.strip().rsplit('/', 1)[-1]}").raise_for_status().json()


@pytest.mark.long
def test_plain_loop_of_document_finishes_run(settings, context, tmp_path):
    with web_process(settings) as address:
        process = run_script(find_example(0), address, tmp_path)
        assert (process.returncode, process.stderr) == (0, "")
        run = fetch_run(address, process.stdout)
        page = httpx2.get(f"{address}/experiments/{run['experiment_id']}")
        predictions = httpx2.get(f"{address}/api/runs/{run['id']}/predictions").json()
    assert (run["status"], run["lam"], run["regularizer"]) == ("finished", -1.0, "istar")
    assert [step["step"] for step in run["steps"]] == list(range(1, 21))
    assert all(-1 <= step["penalty"] <= 0 for step in run["steps"])
    assert run["isoscore_star"] == pytest.approx(1 + run["steps"][-1]["penalty"], abs=0.1)  # measured on other rows
    assert run["results"]["n_validation"] == 32
    assert [row["row"] for row in predictions] == list(range(32))
    right = [row["reference"] == row["predicted"] for row in predictions]
    assert run["results"]["metrics"]["accuracy"] == pytest.approx(sum(right) / 32)
    assert run["results"]["trivial"]["metrics"]["accuracy"] >= 0.5
    assert 0 <= run["performance"] <= 1
    assert page.status_code == 200


@pytest.mark.long
def test_trainer_of_document_logs_layers_and_evaluation(settings, context, tmp_path):
    with serve_in_thread(create_app(settings)) as address:
        process = run_script(find_example(1), address, tmp_path)
        assert process.returncode == 0, process.stderr
        run = fetch_run(address, process.stdout.splitlines()[-1])
        page = httpx2.get(f"{address}/runs/{run['id']}")
    assert (run["status"], run["seed"]) == ("finished", 7)
    expected = {"max_steps": 20, "batch_size": 8, "precision": "fp32"}
    assert {name: run["config"][name] for name in ("max_steps", "batch_size", "precision")} == expected
    layers_by_step = {step["step"]: step["layers"] for step in run["steps"] if step["layers"]}
    assert list(layers_by_step) == [0, 5, 10, 15, 20]
    assert len(layers_by_step[20]["isoscore_star"]) == 2
    assert run["results"]["by_layer"]["isoscore_star"]["values"] == layers_by_step[20]["isoscore_star"]
    assert run["results"]["by_layer_n"]["isoscore_star"] == 32 * 8
    assert [step["step"] for step in run["steps"] if step["task_loss"] is not None] == [5, 10, 15, 20]
    assert 0 < run["isoscore_star"] < 1
    assert 0 <= run["performance"] <= 1
    assert "loss" in run["results"]["further"]
    assert page.status_code == 200


def test_raising_or_silent_script_fails_its_run(settings, context, tmp_path):
    begin = f"import isoscope\nrun = isoscope.log_run('e', **{RUN!r})\nprint(run.url, flush=True)\n"
    begin += "run.step(1, task_loss=2)\n"
    with serve_in_thread(create_app(settings)) as address:
        ended = run_script(begin, address, tmp_path)
        raised = run_script(begin + "with run:\n    raise KeyError('no such row')\n", address, tmp_path)
        runs = [fetch_run(address, process.stdout) for process in (ended, raised)]
    assert [run["status"] for run in runs] == ["failed", "failed"]
    assert [run["error"] for run in runs] == [ENDED_SILENTLY, "KeyError: 'no such row'"]
    assert [run["steps"][0]["task_loss"] for run in runs] == [2, 2]


def test_steps_wait_for_late_server(settings, context, capsys):
    port = free_port()
    run = log_run("later", **RUN, url=f"http://127.0.0.1:{port}")
    begun = time.monotonic()
    for step in range(700):
        run.step(step, task_loss=float("nan") if step == 3 else 1.0)
    assert time.monotonic() - begun < 1
    wait_for(lambda: "does not answer" in capsys.readouterr().err, 20)
    with serve_in_thread(create_app(settings), port) as address:
        assert run.finish({"accuracy": 0.5})
        reported = httpx2.get(f"{address}/api/runs/{run.id}").json()
    assert (reported["status"], len(reported["steps"]), reported["performance"]) == ("finished", 700, 0.5)
    assert reported["notes"] == ["Step 3: task_loss is not a number"]
    assert reported["steps"][3]["task_loss"] is None


def test_refusal_is_printed_and_cancelled_run_stops_logging(settings, context, capsys):
    with serve_in_thread(create_app(settings)) as address:
        run = log_run("refused", **RUN, url=address)
        run.step(1, layers={"beauty": [1.0]})
        wait_for(lambda: "steps were refused" in capsys.readouterr().err, 20)
        run.step(2, task_loss=1)
        assert run.finish()
        run_json = httpx2.get(f"{address}/api/runs/{run.id}").json()
        wrong = log_run("refused", **RUN | {"metric": "beauty"}, url=address)
        assert not wrong.finish()
    assert [step["step"] for step in run_json["steps"]] == [2]
    assert run_json["notes"] == ["1 steps were not logged."]
    assert "this run is no longer logged: Expected metric" in capsys.readouterr().err
    with serve_in_thread(create_app(settings)) as address:
        run = log_run("cancelled", **RUN, url=address)
        wait_for(lambda: httpx2.get(f"{address}/api/runs/{run.id}").is_success, 20)
        assert not run.cancelled
        httpx2.post(f"{address}/api/runs/{run.id}/cancel").raise_for_status()
        run.step(1, task_loss=1)
        wait_for(lambda: run.cancelled, 20)
        run.step(2, task_loss=1)
        assert not run.finish({"accuracy": 1})
        run_json = httpx2.get(f"{address}/api/runs/{run.id}").json()
    assert (run_json["status"], run_json["steps"]) == (RunStatus.CANCELLED, [])
    assert capsys.readouterr().err == (
        "isoscope: this run is no longer logged: Nothing more can be logged to this run: it is cancelled.\n"
    )


def test_failed_request_is_repeated_in_order_with_token(server, capsys):
    server.answer = lambda *_: (503 if len(server.requests) % 2 else 200, {})
    run = log_run("moody", **RUN, url=server.url, token="a secret of the user")
    run.step(1, task_loss=1)
    assert run.finish()
    assert [path for path, *_ in server.requests] == ["runs", "runs", "steps", "steps", "finish", "finish"]
    assert {token for *_, token in server.requests} == {"Bearer a secret of the user"}
    assert capsys.readouterr().err.count("does not answer") == 1
