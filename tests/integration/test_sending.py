import time
from threading import Timer

import numpy as np
import pytest

from isoscope import sending
from isoscope.track import ENDED_SILENTLY, SECONDS_AT_EXIT, log_run
from tests.waiting import patience, wait_for

# No test listens there, as one may on a port that was free: a sender without an answer tries until the process ends.
ABSENT_PORT = 1
RUN = {"dataset": "words", "model": "mine", "metric": "accuracy", "seed": 0}


def refused(detail, status=422, field=None):
    return status, {"detail": detail, "field": field}


def logged_steps(server):
    return [step for body in server.bodies("steps") for step in body["steps"]]


def test_arrays_and_invalid_unicode_are_sent_as_json(server):
    values = RUN | {"seed": np.int64(3), "lam": np.float32(0.5), "settings": {"path": "a\udcff\0", "learningRate": 1}}
    run = log_run("e", url=server.url, **values)
    run.step(np.int64(1), task_loss=np.float32(0.5), layers={"isoscore_star": [np.float32(0.25), "odd"]})
    assert run.finish({"accuracy": np.float64(0.5)}, n_validation=np.int64(4), isoscore_star=1.0000001,
                      results={"rougeL": np.float32(0.5), "a": np.ones(2)})  # fmt: skip
    (begun,), (ended,) = server.bodies("runs"), server.bodies("finish")
    assert (begun["seed"], begun["lam"]) == (3, 0.5)
    assert begun["settings"] == {"path": "a\\udcff\\0", "learning_rate": 1}
    assert server.bodies("steps")[0]["steps"] == [{
        "step": 1, "task_loss": 0.5, "layers": {"isoscore_star": [0.25, None]},
        "reason": "isoscore_star of layer 2 is not a number",
    }]  # fmt: skip
    assert (ended["n_validation"], ended["isoscore_star"], ended["metrics"]) == (4, 1.0000001, {"accuracy": 0.5})
    assert ended["results"] == {"rouge_l": 0.5, "a": "[1. 1.]"}
    run = log_run("e", url=server.url, **RUN | {"regularizer": None, "lam": 0})
    assert run.finish({"accuracy": 0.5})
    assert server.bodies("runs")[-1]["regularizer"] == "none"


def test_vanished_run_or_thread_error_is_printed(server, capsys, monkeypatch):
    monkeypatch.setattr(server, "answer", lambda *_: (200, {}))
    run = log_run("e", url=server.url, **RUN)
    run._sender.put(1, {"task_loss": object()})
    wait_for(lambda: run._sender.refusal, 20)
    assert not run.finish({"accuracy": 1})
    assert "this run is no longer logged: TypeError: Object of type object is not JSON" in capsys.readouterr().err
    server.answer = lambda path, _: (
        (404, {"detail": "There is no run.", "field": None}) if path != "runs" else (200, {})
    )
    run = log_run("e", url=server.url, **RUN)
    assert not run.finish({"accuracy": 1})
    assert capsys.readouterr().err == "isoscope: this run is no longer logged: There is no run.\n"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_fails_and_names_its_target(server, capsys, status):
    server.headers["Location"] = "https://me:secret@other/api/runs"
    server.answer = lambda *_: (status, {})
    run = log_run("e", url=server.url, **RUN)
    run.step(1, task_loss=1)
    assert not run.finish()
    err = capsys.readouterr().err
    assert err == (
        f"isoscope: this run is no longer logged: POST {server.url}/api/runs answered {status} and names "
        "https://other/api/runs. Give the address that the dashboard really has.\n"
    )


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"url": "http://127.0.0.1:80x0"}, "Expected the address of a dashboard such as"),
    ({"url": "http://me:secret@127.0.0.1:80x0"}, "got 'http://127.0.0.1:80x0'"),
    ({"url": "127.0.0.1:8000"}, "Expected the address of a dashboard such as"),
    ({"token": "gehéim"}, "The token of the dashboard cannot be used"),
])  # fmt: skip
def test_invalid_address_or_token_is_printed_once(capsys, wrong, sentence):
    run = log_run("e", **RUN, **wrong)
    run.step(1, task_loss=1)
    assert not run.finish({"accuracy": 1})
    err = capsys.readouterr().err
    assert sentence in err
    assert "secret" not in err
    assert err.count("\n") == 1


def test_password_in_address_is_sent_but_not_printed(server, capsys, monkeypatch):
    run = log_run("e", url=server.url.replace("//", "//me:secret@"), **RUN)
    assert run.url == f"{server.url}/runs/{run.id}"
    assert run.finish({"accuracy": 1})
    assert {authorization for *_, authorization in server.requests} == {"Basic bWU6c2VjcmV0"}
    monkeypatch.setattr(sending, "NEVER_ANSWERED_SECONDS", 2)
    away = log_run("e", url=f"http://me:secret@127.0.0.1:{ABSENT_PORT}", **RUN)
    assert not away.finish()
    err = capsys.readouterr().err
    assert "does not answer" in err
    assert "secret" not in err


def test_local_token_is_not_sent_to_a_proxy(server, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, server.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sending, "NEVER_ANSWERED_SECONDS", 1)
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert not log_run("e", url=f"http://{host}:{ABSENT_PORT}", token="a secret", **RUN).finish()
    assert server.requests == []


def test_refused_end_can_be_retried_or_becomes_the_failure(server, capsys):
    server.answer = lambda path, body: refused("No acc.") if "acc" in body.get("metrics", {}) else (200, {})
    run = log_run("e", url=server.url, **RUN)
    assert not run.finish({"acc": 0.5})
    run.step(1, task_loss=1)
    assert run.finish({"accuracy": 0.5})
    assert [body["metrics"] for body in server.bodies("finish")] == [{"acc": 0.5}, {"accuracy": 0.5}]
    assert server.bodies("steps") == [{"steps": [{"step": 1, "task_loss": 1.0}]}]
    assert capsys.readouterr().err == "isoscope: what came out of this run was refused: No acc.\n"
    logged_run = log_run("e", url=server.url, **RUN)
    assert not logged_run.finish({"acc": 0.5})
    logged_run._end_at_exit()
    assert server.bodies("finish")[-1] == {"error": "No acc."}


@pytest.mark.parametrize("n", [1, 200, 199])
def test_invalid_step_is_dropped_alone(server, capsys, n):
    arrived = []

    def answer(path, body):
        steps = [entry["step"] for entry in body.get("steps", ())]
        if n // 2 in steps:
            return refused("Expected another step.")
        arrived.extend(steps)
        return 200, {}

    server.answer = answer
    run = log_run("e", url=server.url, **RUN)
    for step in range(n):
        run.step(step, task_loss=1)
    assert run.finish({"accuracy": 1})
    assert sorted(set(arrived)) == [step for step in range(n) if step != n // 2]
    assert server.bodies("finish")[0]["notes"] == ["1 steps were not logged."]


def test_absent_server_delays_the_end_by_five_seconds(capsys):
    run = log_run("e", url=f"http://127.0.0.1:{ABSENT_PORT}", **RUN)
    begun = time.monotonic()
    assert not run.finish({"accuracy": 1})
    run._end_at_exit()
    assert 4 < time.monotonic() - begun < 8 * patience()
    lost = "the dashboard has not answered for 5 s; 0 steps and the end are lost if the script ends before it does"
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == f"isoscope: {lost}"
    assert [line.count("isoscope:") for line in lines] == [1] * len(lines)


@pytest.fixture
def unavailable_server(server):
    is_back = []
    server.answer = lambda path, _: (200, {}) if is_back or path == "runs" else (503, "away")
    server.come_back = lambda: is_back.append(True)
    return server


def test_finish_is_delivered_when_server_is_back(unavailable_server, capsys):
    run = log_run("e", url=unavailable_server.url, **RUN)
    wait_for(lambda: unavailable_server.bodies("runs"))
    run.step(1, task_loss=1)
    assert not run.finish({"accuracy": 1}, timeout=0.1)
    assert "1 steps and the end are lost if the script ends before it does" in capsys.readouterr().err
    unavailable_server.come_back()
    assert run.finish()
    assert [body["metrics"] for body in unavailable_server.bodies("finish")] == [{"accuracy": 1}]
    assert logged_steps(unavailable_server)[-1] == {"step": 1, "task_loss": 1.0}


def test_process_exit_waits_for_finish(unavailable_server, capsys):
    run = log_run("e", url=unavailable_server.url, **RUN)
    wait_for(lambda: unavailable_server.bodies("runs"))
    assert not run.finish({"accuracy": 1}, timeout=0.1)
    Timer(1, unavailable_server.come_back).start()
    run._end_at_exit()
    assert [body.get("metrics") for body in unavailable_server.bodies("finish")][-1] == {"accuracy": 1}
    assert {body.get("error") for body in unavailable_server.bodies("finish")} == {None}


def test_exit_hook_gets_its_time_limit_and_replaces_the_wait(unavailable_server, capsys):
    run = log_run("e", url=unavailable_server.url, **RUN)
    wait_for(lambda: unavailable_server.bodies("runs"))
    waited = []
    run.at_exit(lambda seconds: (waited.append(seconds), run.finish(timeout=0.1)))
    begun = time.monotonic()
    run._end_at_exit()
    assert waited == [SECONDS_AT_EXIT]
    assert time.monotonic() - begun < 2
    unavailable_server.come_back()
    assert run.finish()


def test_steps_after_finish_are_dropped_and_reported_once(server, capsys):
    run = log_run("e", url=server.url, **RUN)
    assert run.finish({"accuracy": 1})
    run.step(1, task_loss=1)
    run.step(2, task_loss=1)
    assert logged_steps(server) == []
    assert capsys.readouterr().err == "isoscope: what is logged after the end of a run is let go\n"


def log_at_once(server, n_steps):
    run = log_run("e", url=server.url, **RUN)
    with run._sender._changed:  # keeps steps queued
        for step in range(n_steps):
            run.step(step, task_loss=1)
    return run


def test_queued_steps_are_merged_and_long_reasons_shortened(server):
    run = log_run("e", url=server.url, **RUN)
    with run._sender._changed:
        run.step(1, task_loss=float("nan"), layers={"isoscore_star": [0.5], "mean_cosine": [0.25]})
        run.step(1, penalty=2, layers={"mean_cosine": [0.75], "isoscore_unbiased": [float("inf")]})
    assert run.finish()
    assert logged_steps(server) == [{
        "step": 1, "task_loss": None, "penalty": 2.0,
        "layers": {"isoscore_star": [0.5], "mean_cosine": [0.75], "isoscore_unbiased": [None]},
        "reason": "task_loss is not a number; isoscore_unbiased of layer 1 is infinite",
    }]  # fmt: skip
    run = log_run("e", url=server.url, **RUN)
    with run._sender._changed:
        for measure in ("isoscore_star", "isoscore_unbiased", "mean_cosine"):
            run.step(1, task_loss=1, layers={measure: [float("nan")] * 24})
    assert run.finish()
    step = logged_steps(server)[-1]
    assert (len(step["reason"]), len(step["layers"])) == (1000, 3)


def test_step_changed_during_upload_is_sent_again(server, monkeypatch):
    monkeypatch.setattr(sending, "BYTES_AT_ONCE", 60)  # two steps of 29 bytes

    def answer(path, body):
        if path == "steps" and len(server.bodies("steps")) == 1:
            run.step(1, penalty=3)
        return 200, {}

    server.answer = answer
    run = log_at_once(server, 3)
    wait_for(lambda: run._sender._newest_step == 1)  # sent again with its penalty
    assert run.finish()
    assert [body["steps"] for body in server.bodies("steps")] == [
        [{"step": 0, "task_loss": 1.0}, {"step": 1, "task_loss": 1.0}],
        [{"step": 1, "task_loss": 1.0, "penalty": 3.0}],
        [{"step": 2, "task_loss": 1.0}],
    ]


def test_oldest_queued_steps_are_dropped_and_counted(server, monkeypatch):
    monkeypatch.setattr(sending, "MAX_QUEUED_STEPS", 3)
    run = log_at_once(server, 5)
    assert run.finish(notes=["mine"])
    assert [step["step"] for step in logged_steps(server)] == [2, 3, 4]
    assert server.bodies("finish")[0]["notes"] == ["2 steps were not logged.", "mine"]


def test_full_run_takes_what_fits_and_gets_heartbeats(server, capsys, monkeypatch):
    monkeypatch.setattr(sending, "HEARTBEAT_SECONDS", 0.5)
    stored = set()

    def answer(path, body):
        received = stored | {step["step"] for step in body.get("steps", ())}
        if len(received) > 150:
            return refused("Expected at most 150 steps.", 413, "steps")
        stored.update(received)
        return 200, {}

    server.answer = answer
    run = log_at_once(server, 250)
    wait_for(lambda: run._sender.n_dropped_steps)
    n_requests = len(server.bodies("steps"))
    run.step(250, task_loss=1)
    run.step(250, penalty=1)
    run.step(251, task_loss=1)
    wait_for(lambda: len(server.bodies("steps")) > n_requests + 1)
    assert {len(body["steps"]) for body in server.bodies("steps")[n_requests:]} == {0}
    assert run.finish()
    assert stored == set(range(150))
    assert server.bodies("finish")[0]["notes"] == ["102 steps were not logged."]
    assert capsys.readouterr().err == "isoscope: steps were refused: Expected at most 150 steps.\n"


def test_oversized_step_is_dropped_alone(server, capsys):
    server.answer = lambda path, body: (
        refused("Too many bytes.", 413, "file") if "penalty" in str(body.get("steps")) else (200, {})
    )
    run = log_run("e", url=server.url, **RUN)
    with run._sender._changed:
        run.step(1, task_loss=1)
        run.step(2, penalty=1)
        run.step(3, task_loss=1)
    assert run.finish()
    assert {"step": 3, "task_loss": 1.0} in logged_steps(server)
    assert server.bodies("finish")[0]["notes"] == ["1 steps were not logged."]


@pytest.mark.parametrize(("error", "sentence"), [
    ("", ENDED_SILENTLY), ("\n \u200b", ENDED_SILENTLY), ("no\nrows", "no rows"), ("a\0" * 800, ("a\\0" * 800)[:1000]),
    ("\udcff" * 999, ("\\udcff" * 999)[:1000]),
])  # fmt: skip
def test_failure_text_is_sent_on_one_line(server, error, sentence):
    assert log_run("e", url=server.url, **RUN).fail(error)
    assert server.bodies("finish") == [{"error": sentence}]


def test_notes_and_reasons_are_sent_on_one_line(server):
    run = log_run("e", url=server.url, **RUN)
    assert run.finish(
        notes=["a\0" * 800], isoscore_star_reason="one\npoint", by_layer={"twonn": [1.0, None]},
        by_layer_reasons={"twonn": [None, "all\nequal"]},
    )  # fmt: skip
    [ended] = server.bodies("finish")
    assert (ended["notes"], ended["isoscore_star_reason"]) == ([("a\\0" * 800)[:1000]], "one point")
    assert ended["by_layer"] == {"twonn": {"values": [1.0, None], "n": None, "reasons": [None, "all equal"]}}


@pytest.mark.parametrize("status", [404, 408, 425, 429, 502, 503, 504])
def test_unavailable_server_is_retried(server, status):
    server.answer = lambda *_: (status, "no dashboard") if len(server.requests) == 1 else (200, {})
    run = log_run("e", url=server.url, **RUN)
    assert run.finish({"accuracy": 1})
    assert [path for path, *_ in server.requests] == ["runs", "runs", "finish"]


def test_predictions_are_sent_in_parts_before_finish(server, monkeypatch):
    monkeypatch.setattr(sending, "PREDICTIONS_AT_ONCE", 2)
    run = log_run("e", url=server.url, **RUN)
    run.log_predictions(reference=np.array([1, 0, 1]), predicted=np.array([1, 1, 1]))
    run.log_predictions(rows=[7], reference=[np.int64(0)], predicted=[True])
    assert run.finish({"accuracy": 0.5})
    assert server.bodies("predictions") == [
        {"rows": [0, 1], "reference": [1, 0], "predicted": [1, 1]},
        {"rows": [2], "reference": [1], "predicted": [1]},
        {"rows": [7], "reference": [0], "predicted": [True]},
    ]
    assert "notes" not in server.bodies("finish")[0] or server.bodies("finish")[0]["notes"] == []


def test_refused_or_uneven_predictions_are_dropped_and_counted(server, capsys):
    run = log_run("e", url=server.url, **RUN)
    run.log_predictions(rows=[0, 1, 2], reference=[0, 1], predicted=[0, 1])
    assert run.finish({"accuracy": 0.5})
    assert server.bodies("predictions") == []
    assert "predictions were not logged: their columns have [2, 3] values" in capsys.readouterr().err
    default_answer = server.answer

    def answer(path, *arguments):
        if path == "predictions":
            return 422, {"detail": "Expected finite numbers.", "field": "predicted"}
        return default_answer(path, *arguments)

    server.answer = answer
    run = log_run("e", url=server.url, **RUN)
    run.log_predictions(reference=[0.0, 1.0], predicted=[float("nan"), 1.0])
    assert run.finish({"accuracy": 0.5})
    assert capsys.readouterr().err == "isoscope: predictions were refused: Expected finite numbers.\n"
    assert server.bodies("finish")[-1]["notes"] == ["2 predictions were not logged."]
