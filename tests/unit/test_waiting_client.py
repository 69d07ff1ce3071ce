"""Waiting for an experiment goes by its own state, and outlives a server that is started anew."""

import pytest

from isoscope.client import encodings
from isoscope.client import training as experiments
from isoscope.client.connection import RefusedError
from isoscope.client.encodings import Encodings
from isoscope.client.training import Experiments
from isoscope.core.errors import InvalidError, UnavailableError


def row(status, *runs):
    return {"status": status, "runs": [{"status": run} for run in runs]}


def waiting(answers, monkeypatch):
    """A client that is answered so, one after the other; what is an exception is raised."""
    left = iter(answers)

    def answer(*_):
        one = next(left)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(experiments, "LOOK_EVERY_SECONDS", 0)
    monkeypatch.setattr(Experiments, "experiment", answer)
    return Experiments("http://127.0.0.1:1")


def test_a_search_between_two_trials_is_waited_for(monkeypatch):
    ended = row("finished", "finished", "pruned")
    client = waiting([row("running", "finished"), row("running", "finished", "queued"), ended], monkeypatch)
    assert client.wait("x") == ended


def test_a_server_that_is_started_anew_is_waited_for_and_said_once(monkeypatch, capsys):
    ended = row("finished", "finished")
    away = [UnavailableError("No Isoscope answers."), RefusedError("Bad gateway.", status=502)]
    assert waiting([row("running", "running"), *away, ended], monkeypatch).wait("x") == ended
    assert capsys.readouterr().err == "isoscope: No Isoscope answers. It is waited for.\n"


@pytest.mark.parametrize("answers", [[], [row("running", "running")]])
def test_what_is_refused_and_a_server_that_was_never_there_are_said_at_once(monkeypatch, answers):
    first = UnavailableError("No Isoscope answers.") if not answers else RefusedError("It is gone.", status=404)
    with pytest.raises(type(first)):
        waiting([*answers, first], monkeypatch).wait("x")


def trying(monkeypatch, *looks, workers=1):
    """A client whose sweep is tried by a worker, and what is seen of that, one after the other."""
    left = iter(looks)
    asked = []

    def ask(_, method, path, **__):
        asked.append((method, path))
        if method == "POST":
            return {"estimate": {"seconds": 8.0} if len(asked) > 1 else None, "dry_run": {"id": "x"}}
        if path == "/api/health":
            return {"workers_alive": workers}
        one = next(left)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(experiments, "LOOK_EVERY_SECONDS", 0)
    monkeypatch.setattr(experiments, "DRY_RUN_SECONDS", 0)
    monkeypatch.setattr(Experiments, "ask", ask)
    return Experiments("http://127.0.0.1:1")


def test_a_dry_run_is_waited_for_through_a_new_start_of_the_server(monkeypatch):
    looks = [{"status": "queued"}, UnavailableError("No Isoscope answers."), {"status": "ready"}]
    assert trying(monkeypatch, *looks).dry_run({})["estimate"] == {"seconds": 8.0}
    assert trying(monkeypatch).dry_run({}, wait=False)["estimate"] is None


def test_a_dry_run_is_not_waited_for_without_a_worker_or_when_it_has_failed(monkeypatch):
    with pytest.raises(
        UnavailableError, match=r"^No worker is alive to try the sweep\. Start one, or ask without wait\.$"
    ):
        trying(monkeypatch, workers=0).dry_run({})
    with pytest.raises(InvalidError, match=r"^The dry run failed: There is no column x\.$"):
        trying(monkeypatch, {"status": "failed", "error": "There is no column x."}).dry_run({})


def test_an_encoding_is_waited_for_until_its_layers_are_measured(monkeypatch):
    states = iter(["queued", "running", "finished"])
    layers = iter([["measuring", "ready"], ["ready", "measuring"], ["ready", "failed"]])
    asked = []

    def get_list(_, *path):
        asked.append(path)
        return [{"status": status} for status in next(layers)]

    monkeypatch.setattr(encodings, "LOOK_EVERY_SECONDS", 0)
    monkeypatch.setattr(Encodings, "encoding", lambda *_: {"name": "texts", "status": next(states)})
    monkeypatch.setattr(Encodings, "get_list", get_list)
    assert Encodings("http://127.0.0.1:1").wait_for_encoding("x") == {"name": "texts", "status": "finished"}
    assert asked == 3 * [("encodings", "x", "layers")]
