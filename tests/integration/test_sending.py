"""What a script's thread does with values of any kind, and with servers that are not a dashboard, or not now."""

import time

import numpy as np
import pytest

from isoscope.track import log_run
from tests.listening import Server
from tests.ports import free_port
from tests.waiting import wait_for

TOLD = {"dataset": "words", "model": "mine", "metric": "accuracy", "seed": 0}


@pytest.fixture
def server():
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()


def refused(detail):
    return 422, {"detail": detail, "field": None}


def test_numbers_of_arrays_and_texts_that_are_no_unicode_arrive_as_json_has_them(server):
    told = TOLD | {"seed": np.int64(3), "lam": np.float32(0.5), "settings": {"path": "a\udcff\0", "learningRate": 1}}
    run = log_run("e", url=server.url, **told)
    run.step(np.int64(1), task_loss=np.float32(0.5), layers={"isoscore_star": [np.float32(0.25), "odd"]})
    assert run.finish({"accuracy": np.float64(0.5)}, n_validation=np.int64(4), isoscore_star=1.0000001,
                      results={"rougeL": np.float32(0.5), "a": np.ones(2)})  # fmt: skip
    (begun,), (ended,) = server.bodies("runs"), server.bodies("finish")
    assert (begun["seed"], begun["lam"]) == (3, 0.5)
    assert begun["settings"] == {"path": "a\\udcff\\0", "learning_rate": 1}
    assert server.bodies("steps")[0]["steps"] == [
        {
            "step": 1,
            "task_loss": 0.5,
            "layers": {"isoscore_star": [0.25, None]},
            "reason": "isoscore_star of layer 2 is not a number",
        }
    ]
    assert (ended["n_validation"], ended["isoscore_star"], ended["metrics"]) == (4, 1.0, {"accuracy": 0.5})
    assert ended["results"] == {"rouge_l": 0.5, "a": "[1. 1.]"}


def test_whatever_goes_wrong_in_the_thread_is_said_and_nothing_has_arrived(server, capsys, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda *_: (200, {}))
    run = log_run("e", url=server.url, **TOLD)
    run._sender.put(1, {"task_loss": object()})
    wait_for(lambda: run._sender.refusal, 20)
    assert not run.finish({"accuracy": 1})
    assert "this run is not logged any more: TypeError: Object of type object is not JSON" in capsys.readouterr().err


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_no_success_and_says_once_where_the_dashboard_is(server, capsys, status):
    server.headers["Location"] = "https://me:secret@elsewhere/api/runs"
    server.answer = lambda *_: (status, {})
    run = log_run("e", url=server.url, **TOLD)
    run.step(1, task_loss=1)
    assert not run.finish()
    said = capsys.readouterr().err
    assert said == (
        f"isoscope: this run is not logged any more: POST {server.url}/api/runs answered {status} and names "
        "https://elsewhere/api/runs. Give the address that the dashboard really has.\n"
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"url": "http://127.0.0.1:80x0"}, "Expected the address of a dashboard such as"),
        ({"url": "http://me:secret@127.0.0.1:80x0"}, "got 'http://127.0.0.1:80x0'"),
        ({"url": "127.0.0.1:8000"}, "Expected the address of a dashboard such as"),
        ({"token": "gehéim"}, "The token of the dashboard cannot be used"),
    ],
)
def test_an_address_or_token_that_is_none_is_said_once_and_the_script_goes_on(capsys, wrong, sentence):
    run = log_run("e", **TOLD, **wrong)
    run.step(1, task_loss=1)
    assert not run.finish({"accuracy": 1})
    said = capsys.readouterr().err
    assert sentence in said
    assert "secret" not in said
    assert said.count("\n") == 1


def test_a_password_in_the_address_is_neither_kept_nor_said_but_brought(server, capsys):
    run = log_run("e", url=server.url.replace("//", "//me:secret@"), **TOLD)
    assert run.url == f"{server.url}/runs/{run.id}"
    assert run.finish({"accuracy": 1})
    assert {authorization for *_, authorization in server.asked} == {"Basic bWU6c2VjcmV0"}
    away = log_run("e", url=f"http://me:secret@127.0.0.1:{free_port()}", **TOLD)
    assert not away.finish(timeout=2)
    said = capsys.readouterr().err
    assert "does not answer" in said
    assert "secret" not in said


def test_a_token_for_this_machine_goes_to_no_proxy(server, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, server.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert not log_run("e", url=f"http://{host}:{free_port()}", token="a secret", **TOLD).finish(timeout=1)
    assert server.asked == []


def test_an_end_that_is_refused_may_be_told_again(server, capsys):
    server.answer = lambda path, body: refused("No acc.") if "acc" in body.get("metrics", {}) else (200, {})
    run = log_run("e", url=server.url, **TOLD)
    assert not run.finish({"acc": 0.5})
    run.step(1, task_loss=1)
    assert run.finish({"accuracy": 0.5})
    assert [body["metrics"] for body in server.bodies("finish")] == [{"acc": 0.5}, {"accuracy": 0.5}]
    assert server.bodies("steps") == [{"steps": [{"step": 1, "task_loss": 1.0}]}]
    assert capsys.readouterr().err == "isoscope: what came out of this run was refused: No acc.\n"


def test_a_run_whose_end_was_refused_has_failed_with_that_sentence_when_its_script_ends(server, capsys):
    server.answer = lambda path, body: refused("No acc.") if "acc" in body.get("metrics", {}) else (200, {})
    run = log_run("e", url=server.url, **TOLD)
    assert not run.finish({"acc": 0.5})
    run._leave()
    assert server.bodies("finish")[-1] == {"error": "No acc."}


@pytest.mark.parametrize("n", [1, 200, 199])
def test_one_wrong_step_takes_no_other_with_it(server, capsys, n):
    arrived = []

    def answer(path, body):
        steps = [one["step"] for one in body.get("steps", ())]
        if n // 2 in steps:
            return refused("Expected another step.")
        arrived.extend(steps)
        return 200, {}

    server.answer = answer
    run = log_run("e", url=server.url, **TOLD)
    for step in range(n):
        run.step(step, task_loss=1)
    assert run.finish({"accuracy": 1})
    assert sorted(set(arrived)) == [step for step in range(n) if step != n // 2]
    assert server.bodies("finish")[0]["notes"] == ["1 steps were not logged."]


def test_a_server_that_was_never_there_costs_five_seconds(capsys):
    run = log_run("e", url=f"http://127.0.0.1:{free_port()}", **TOLD)
    begun = time.monotonic()
    assert not run.finish({"accuracy": 1})
    assert 4 < time.monotonic() - begun < 8
    assert "the dashboard has not answered for 5 s; 0 steps and the end are lost" in capsys.readouterr().err


@pytest.mark.parametrize("status", [404, 408, 425, 429, 502, 503, 504])
def test_what_says_that_it_is_away_is_asked_again(server, status):
    server.answer = lambda *_: (status, "no dashboard") if len(server.asked) == 1 else (200, {})
    run = log_run("e", url=server.url, **TOLD)
    assert run.finish({"accuracy": 1})
    assert [path for path, *_ in server.asked] == ["runs", "runs", "finish"]


def test_a_run_that_the_dashboard_says_is_gone_is_refused(server, capsys):
    server.answer = lambda path, _: (
        (404, {"detail": "There is no run.", "field": None}) if path != "runs" else (200, {})
    )
    run = log_run("e", url=server.url, **TOLD)
    assert not run.finish({"accuracy": 1})
    assert capsys.readouterr().err == "isoscope: this run is not logged any more: There is no run.\n"
