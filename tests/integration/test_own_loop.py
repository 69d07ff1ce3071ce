import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from app.db.models import RunStatus
from app.main import create_app
from isoscope.callback import IsoscopeCallback
from isoscope.track import ENDED_SILENTLY, SECONDS_AT_EXIT, log_run
from tests.ports import free_port
from tests.serving import serve_in_thread, web_process
from tests.waiting import patience, wait_for

DOCUMENT = Path(__file__).parents[2] / "docs" / "own_loop.md"
RUN = {"dataset": "words", "model": "mine", "metric": "accuracy", "seed": 0}
WORDS = torch.randint(5, 100, (16, 8), generator=torch.Generator().manual_seed(0))
ROWS = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0] > 50)} for row in WORDS]
PROBE = {"input_ids": WORDS[:2], "attention_mask": torch.ones_like(WORDS[:2])}


def run_script(text, address, folder):
    environment = os.environ | {"ISOSCOPE_URL": address, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd=folder, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip


def find_example(number):
    return re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)[number]


def fetch_run(address, line):
    return httpx2.get(f"{address}/api/runs/{line.strip()[-32:]}", timeout=60).raise_for_status().json()


@pytest.mark.long
def test_plain_loop_of_document_finishes_run(settings, context, tmp_path):
    with web_process(settings) as address:
        process = run_script(find_example(0), address, tmp_path)
        assert (process.returncode, process.stderr) == (0, "")
        run = fetch_run(address, process.stdout)
        page = httpx2.get(f"{address}/experiments/{run['experiment_id']}", timeout=60)
        predictions = httpx2.get(f"{address}/api/runs/{run['id']}/predictions", timeout=60).json()
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
        page = httpx2.get(f"{address}/runs/{run['id']}", timeout=60)
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
    assert time.monotonic() - begun < patience()
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


@pytest.fixture
def callback(server):
    return IsoscopeCallback(
        "e", dataset="d", model="m", metric="accuracy", probe=PROBE, every=5, stop_when_cancelled=True, url=server.url
    )


@pytest.fixture
def trainer(tmp_path):
    def trainer(*callbacks, metrics=lambda _: {"accuracy": 0.5}, **arguments):
        size = {"vocab_size": 100, "hidden_size": 16, "intermediate_size": 32}
        config = BertConfig(**size, num_hidden_layers=1, num_attention_heads=2)
        quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
        return Trainer(
            model=BertForSequenceClassification(config),
            args=TrainingArguments(output_dir=str(tmp_path), use_cpu=True, **quiet | arguments),
            train_dataset=ROWS,
            eval_dataset=ROWS,
            compute_metrics=metrics,
            callbacks=list(callbacks),
        )

    return trainer


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step == self.step


def steps(server):
    return [step for body in server.bodies("steps") for step in body["steps"]]


def layers(server):
    return {step["step"]: step["layers"] for step in steps(server) if "layers" in step}


def by_layer(ended):
    return {measure: entry["values"] for measure, entry in ended["by_layer"].items()}


def test_second_training_begins_independent_run(server, trainer):
    callback = IsoscopeCallback("e", dataset="d", model="m", metric="accuracy", url=server.url)
    runs, arguments = [], {"eval_strategy": "steps", "eval_steps": 2, "logging_strategy": "steps", "logging_steps": 1}
    for seed, metric in ((0, {"accuracy": 0.25, "rougeL": 0.5}), (1, {"accuracy": 0.75})):
        trainer(callback, metrics=lambda _, metric=metric: metric, seed=seed, max_steps=2, **arguments).train()
        runs.append(callback.run)
    assert runs[0].id != runs[1].id
    assert [body["seed"] for body in server.bodies("runs")] == [0, 1]
    first, second = server.bodies("finish")
    assert [first["metrics"], second["metrics"]] == [{"accuracy": 0.25}, {"accuracy": 0.75}]
    assert ["rouge_l" in body["results"] for body in (first, second)] == [True, False]
    assert [step["step"] for step in steps(server)] == [1, 2, 1, 2]


def test_early_stop_is_measured_at_last_step(server, callback, trainer):
    trained = trainer(callback, StopAt(7), max_steps=20)
    trained.train()
    trained.evaluate()
    [ended] = server.bodies("finish")
    assert list(layers(server)) == [0, 5, 7]
    assert by_layer(ended) == layers(server)[7]
    assert (ended["metrics"], ended["notes"]) == ({"accuracy": 0.5}, [])
    reason = "The bias-corrected IsoScore needs at least 4 points; there are 2."
    assert ended["by_layer"]["isoscore_unbiased"] == {"values": [None], "n": 2, "reasons": [reason]}
    assert ended["by_layer"]["mean_cosine"]["reasons"] == [None]


def test_best_model_reports_its_layers_and_metrics(server, callback, trainer):
    values = iter([0.9, 0.2, 0.1])
    common = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "accuracy"}
    stopping = EarlyStoppingCallback(2)
    trainer(callback, stopping, metrics=lambda _: {"accuracy": next(values)}, max_steps=20, **common, **best).train()
    [ended] = server.bodies("finish")
    assert list(layers(server)) == [0, 5, 2]
    assert by_layer(ended) == layers(server)[2]
    assert (ended["metrics"], ended["notes"]) == ({"accuracy": 0.9}, [])


def test_missing_final_evaluation_is_noted_with_step(server, callback, trainer):
    trainer(callback, StopAt(3), max_steps=20, eval_strategy="steps", eval_steps=2).train()
    assert server.bodies("finish") == []
    callback.run._end_at_exit()
    [ended] = server.bodies("finish")
    assert ended["metrics"] == {"accuracy": 0.5}
    assert ended["notes"] == ["Its metrics are of step 2, its trained model is of step 3."]
    assert by_layer(ended) == layers(server)[3]


def test_exit_hook_of_callback_has_timeout_of_loop(server, callback, trainer, monkeypatch):
    trainer(callback, max_steps=1).train()
    waited = []
    monkeypatch.setattr(callback.run, "finish", lambda *_, timeout, **__: waited.append(timeout))
    callback.run._end_at_exit()
    assert waited == [SECONDS_AT_EXIT]


def test_resumed_training_is_second_run(server, callback, trainer, tmp_path):
    trainer(callback, StopAt(2), max_steps=6, save_strategy="steps", save_steps=2).train()
    again = trainer(callback, max_steps=6)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    again.evaluate()
    assert len({body["id"] for body in server.bodies("runs")}) == 2
    assert [step["step"] for step in steps(server)] == [0, 2, 5, 6]
    assert [body["metrics"] for body in server.bodies("finish")] == [{}, {"accuracy": 0.5}]


def test_cancelled_run_stops_training_if_requested(server, callback, trainer):
    gone = {"detail": "It is cancelled.", "field": "status"}
    server.answer = lambda path, _: (409, gone) if path == "steps" else (200, {})
    trained = trainer(callback, max_steps=5000)
    trained.train()
    assert callback.run.cancelled
    assert 0 < trained.state.global_step < 5000
    assert server.bodies("finish") == []


def test_other_refusals_do_not_cancel_training(server, trainer):
    for status, field in ((404, None), (409, None), (422, "status")):
        problem = {"detail": "There is none that could be cancelled.", "field": field}
        server.answer = lambda *_, answer=(status, problem): answer
        callback = IsoscopeCallback(
            "e", dataset="d", model="m", metric="accuracy", stop_when_cancelled=True, url=server.url
        )
        trained = trainer(callback, max_steps=2)
        trained.train()
        assert not callback.run.finish()
        assert not callback.run.cancelled
        assert trained.state.global_step == 2
