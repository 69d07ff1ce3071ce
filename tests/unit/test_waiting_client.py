import pytest

from isoscope.client import encodings
from isoscope.client import training as experiments
from isoscope.client.connection import RefusedError
from isoscope.client.encodings import Encodings
from isoscope.client.training import Experiments
from isoscope.core.errors import UnavailableError


def row(status, *runs):
    return {"status": status, "runs": [{"status": run} for run in runs]}


def waiting(answers, monkeypatch):
    """A client that is answered so, one after the other; what is an exception is raised."""
    remaining = iter(answers)

    def answer(*_):
        reply = next(remaining)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(experiments, "POLL_SECONDS", 0)
    monkeypatch.setattr(Experiments, "experiment", answer)
    return Experiments("http://127.0.0.1:1")


def test_a_search_between_trials_and_a_server_started_anew_are_waited_for(monkeypatch, capsys):
    ended = row("finished", "finished", "pruned")
    client = waiting([row("running", "finished"), row("running", "finished", "queued"), ended], monkeypatch)
    assert client.wait("x") == ended
    ended = row("finished", "finished")
    away = [UnavailableError("No Isoscope answers."), RefusedError("Bad gateway.", status=502)]
    assert waiting([row("running", "running"), *away, ended], monkeypatch).wait("x") == ended
    assert capsys.readouterr().err == "isoscope: No Isoscope answers. It is waited for.\n"


@pytest.mark.parametrize("answers", [[], [row("running", "running")]])
def test_what_is_refused_and_a_server_that_was_never_there_are_said_at_once(monkeypatch, answers):
    first = UnavailableError("No Isoscope answers.") if not answers else RefusedError("It is gone.", status=404)
    with pytest.raises(type(first)):
        waiting([*answers, first], monkeypatch).wait("x")


def test_an_encoding_is_waited_for_until_its_layers_are_measured(monkeypatch):
    states = iter(["queued", "running", "finished"])
    layers = iter([["measuring", "ready"], ["ready", "measuring"], ["ready", "failed"]])
    requests = []

    def get_list(_, *path):
        requests.append(path)
        return [{"status": status} for status in next(layers)]

    monkeypatch.setattr(encodings, "POLL_SECONDS", 0)
    monkeypatch.setattr(Encodings, "encoding", lambda *_: {"name": "texts", "status": next(states)})
    monkeypatch.setattr(Encodings, "get_list", get_list)
    assert Encodings("http://127.0.0.1:1").wait_for_encoding("x") == {"name": "texts", "status": "finished"}
    assert requests == 3 * [("encodings", "x", "layers")]
