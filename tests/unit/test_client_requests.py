from pathlib import Path

import pytest

from isoscope.client import Isoscope, encodings
from isoscope.client import training as experiments
from isoscope.client.connection import RefusedError
from isoscope.client.encodings import Encodings, likely_settings
from isoscope.client.training import Experiments
from isoscope.core.errors import InvalidError, UnavailableError


def row(status, *runs):
    return {"status": status, "runs": [{"status": run} for run in runs]}


def replying_client(answers, monkeypatch):
    """Return a client that gets these replies in turn; exceptions are raised."""
    remaining = iter(answers)

    def answer(*_):
        reply = next(remaining)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(experiments, "POLL_SECONDS", 0)
    monkeypatch.setattr(Experiments, "experiment", answer)
    return Experiments("http://127.0.0.1:1")


def test_wait_survives_pauses_between_trials_and_server_restart(monkeypatch, capsys):
    ended = row("finished", "finished", "pruned")
    client = replying_client([row("running", "finished"), row("running", "finished", "queued"), ended], monkeypatch)
    assert client.wait("x") == ended
    ended = row("finished", "finished")
    outages = [UnavailableError("No Isoscope answers."), RefusedError("Bad gateway.", status=502)]
    assert replying_client([row("running", "running"), *outages, ended], monkeypatch).wait("x") == ended
    assert capsys.readouterr().err == "isoscope: No Isoscope answers. Waiting for it.\n"


@pytest.mark.parametrize("answers", [[], [row("running", "running")]])
def test_refusal_and_missing_server_raise_at_once(monkeypatch, answers):
    first = UnavailableError("No Isoscope answers.") if not answers else RefusedError("It is gone.", status=404)
    with pytest.raises(type(first)):
        replying_client([*answers, first], monkeypatch).wait("x")


def test_wait_for_encoding_waits_for_its_layers(monkeypatch):
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


@pytest.fixture
def requests_sent(monkeypatch):
    """Collect the file names and fields that the client would send."""
    calls = []

    def send_files(self, path, files, fields, progress=None):
        calls.append((path, [(field, Path(file).name) for field, file in files], fields["name"]))

    monkeypatch.setattr(Isoscope, "send_files", send_files)
    return calls


def test_folder_is_uploaded_as_its_files_under_its_name(tmp_path, requests_sent):
    folder = tmp_path / "scifact"
    (folder / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "readme.md", "qrels/dev.tsv", "qrels/test.tsv"):
        (folder / name).touch()
    with Isoscope("http://127.0.0.1:9") as isoscope:
        isoscope.upload_texts(folder)
        isoscope.upload_texts(tmp_path / "scifact.zip", name="SciFact")
        with pytest.raises(InvalidError, match="is no BEIR data set"):
            isoscope.upload_texts(tmp_path)
    names = ["corpus.jsonl", "queries.jsonl", "dev.tsv", "test.tsv"]
    assert requests_sent == [
        ("/api/encodings", [("file", name) for name in names], "scifact"),
        ("/api/encodings", [("file", "scifact.zip")], "SciFact"),
    ]


def test_beir_corpus_is_encoded_without_row_limit():
    columns = [{"name": "_id", "kind": "text"}, {"name": "text", "kind": "text"}]
    assert likely_settings({"columns": columns[1:], "qrels": []}) == {"text_columns": ["text"]}
    settings = likely_settings({"columns": columns, "qrels": [{"split": "test"}]})
    assert settings == {"text_columns": ["text"], "max_rows": None}
