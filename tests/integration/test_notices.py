import logging

import pytest
from pydantic import SecretStr, ValidationError

from app.core.settings import Settings
from app.db.models import Experiment, RunStatus
from app.db.types import utcnow
from app.training.queue_verbs import retry_run
from tests.factories import add_experiment, run_row
from tests.ports import free_port
from workers import notices
from workers.notices import announce_ended_experiments, send

URL = SecretStr("https://chat.example/hook")


def hook(server):
    return SecretStr(f"{server.url}/hook?secret=hidden")


@pytest.fixture
def sent(monkeypatch):
    messages = []
    monkeypatch.setattr(notices, "send", lambda _, message: messages.append(message))

    class ImmediateThread:
        def __init__(self, target, args, **_):
            self.start = lambda: target(*args)

    monkeypatch.setattr(notices, "Thread", ImmediateThread)
    return messages


@pytest.mark.both_databases
def test_experiment_end_is_announced_once_and_again_after_retry(context, sent):
    failed = run_row(status=RunStatus.FAILED, error="x")
    sweep = add_experiment(context, failed, run_row(seed=1), name="sweep")
    announce_ended_experiments(context.sessions, URL)
    announce_ended_experiments(context.sessions, URL)
    [message] = sent
    assert (message["event"], message["text"]) == ("experiment.ended", "sweep has ended: 2 runs, 1 failed, 1 finished.")
    assert message["experiment"] == {
        "id": sweep, "name": "sweep", "status": "failed", "counts": {"failed": 1, "finished": 1},
        "path": f"/experiments/{sweep}",
    }  # fmt: skip
    retry_run(context, failed.id)
    announce_ended_experiments(context.sessions, URL)
    assert len(sent) == 1
    with context.sessions.begin() as session:
        session.get(Experiment, sweep).runs[0].status = RunStatus.FINISHED
    announce_ended_experiments(context.sessions, URL)
    assert sent[1]["experiment"]["status"] == "finished"


def test_only_ended_local_experiments_are_announced(context, sent, monkeypatch):
    add_experiment(context, run_row(status=RunStatus.QUEUED), run_row(seed=1), name="at work")
    add_experiment(context, run_row(), name="imported", origin="imported")
    announce_ended_experiments(context.sessions, URL)
    assert sent == []
    add_experiment(context, run_row())
    announce_ended_experiments(context.sessions, None)
    announce_ended_experiments(context.sessions, URL)
    assert sent == []
    failed = run_row(status=RunStatus.FAILED, error="x")
    sweep = add_experiment(context, failed, name="sweep")

    def retry_before_mark():
        retry_run(context, failed.id)
        return utcnow()

    with monkeypatch.context() as patch:
        patch.setattr(notices, "utcnow", retry_before_mark)
        announce_ended_experiments(context.sessions, URL)
    assert sent == []
    with context.sessions.begin() as session:
        session.get(Experiment, sweep).runs[0].status = RunStatus.FINISHED
    announce_ended_experiments(context.sessions, URL)
    assert [message["experiment"]["status"] for message in sent] == ["finished"]


def test_webhook_gets_message_and_logs_hide_its_url(server, caplog):
    caplog.set_level(logging.DEBUG)
    send(hook(server), {"text": "hello"})
    assert [body for _, body, _ in server.requests] == [{"text": "hello"}]
    assert not [record for record in caplog.records if "/hook" in record.getMessage()]


def test_redirect_is_not_followed_and_failure_hides_secret(server, caplog):
    server.headers["Location"] = f"{server.url}/other"
    server.answer = lambda *_: (302, {})
    with caplog.at_level(logging.WARNING):
        send(hook(server), {"text": "hello"})
        send(SecretStr(f"http://127.0.0.1:{free_port()}/hook?secret=hidden"), {})
    assert [path for path, *_ in server.requests] == ["hook?secret=hidden"]
    expected = ["the webhook answered with status 302", "the webhook could not be reached: ConnectError"]
    assert [record.getMessage() for record in caplog.records if record.name == "workers.notices"] == expected


def test_invalid_webhook_url_is_refused_without_being_shown(tmp_path):
    for url in ["ftp://host/x", "host/x", "https:///x", "file:///etc/passwd"]:
        with pytest.raises(ValidationError) as refused:
            Settings(data_dir=tmp_path, webhook_url=url)
        [error] = refused.value.errors()
        assert error["loc"] == ("webhook_url",)
        assert "Expected an address such as https://host/path." in error["msg"]
        assert url not in str(refused.value)
    assert Settings(data_dir=tmp_path, webhook_url="").webhook_url is None
