import sqlite3
import time
from contextlib import ExitStack
from unittest.mock import AsyncMock, Mock

import httpx2
import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.web.uploads import Parsers
from isoscope.client import Isoscope, connection
from isoscope.core.errors import BusyError
from tests.archives import add_experiment
from tests.crowd import read_while_writers_wait

LOCKED = OperationalError("update", {}, sqlite3.OperationalError("database is locked"))
CROWDED = PoolTimeoutError("QueuePool limit of size 5 overflow 10 reached")
HTMX = {"HX-Request": "true", "Sec-Fetch-Site": "same-origin"}


def test_busy_database_returns_503_with_retry_after(client, monkeypatch):
    for error in (LOCKED, CROWDED):
        monkeypatch.setattr("app.training.datasets.list_datasets", Mock(side_effect=error))
        for path in ("/api/datasets", "/datasets"):
            answer = client.get(path, headers={"accept": "application/json" if "api" in path else "text/html"})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert "The database is busy. Try again in 5 seconds." in answer.text
    monkeypatch.setattr("app.operations.health.ANSWER_SECONDS", 0.2)
    monkeypatch.setattr("app.operations.health.count_live_workers", lambda _: time.sleep(2))
    answer = client.get("/api/health")
    assert (answer.status_code, answer.json()["detail"]) == (503, "The database does not answer within 0.2 seconds.")


def test_health_reuses_recent_answer_of_slow_database(client, monkeypatch):
    assert client.get("/api/health").status_code == 200
    monkeypatch.setattr("app.operations.health.ANSWER_SECONDS", 0.2)
    monkeypatch.setattr("app.operations.health.count_live_workers", lambda _: time.sleep(4))
    assert client.get("/api/health").json() == {"status": "ok", "workers_alive": 0}
    monkeypatch.setattr("app.operations.health.RECENT_SECONDS", 0.0)
    assert client.get("/api/health").status_code == 503


@pytest.mark.both_databases
def test_exhausted_pool_serves_health_and_static_files(client, context):
    pool = client.app.state.context.sessions.kw["bind"].pool
    with ExitStack() as held:
        for _ in range(pool.size() + pool._max_overflow):
            held.callback(pool.connect().close)
        assert client.get("/api/health").json() == {"status": "ok", "workers_alive": 0}
        assert client.get("/static/app.css").status_code == 200


def test_static_files_are_cached_and_confined_to_folder(client):
    first = client.get("/static/app.css")
    assert (first.status_code, first.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert (first.headers["content-encoding"], len(first.content) > 1000) == ("gzip", True)
    plain = client.get("/static/app.css", headers={"Accept-Encoding": "identity"})
    assert (plain.content, plain.headers.get("content-encoding")) == (first.content, None)
    again = client.get("/static/app.css", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in ("/static/js", "/static/nothing.css", "/static/%2e%2e/templates/base.html", "/static/" + "a" * 300):
        assert client.get(path).status_code == 404, path
    assert client.post("/static/app.css").status_code == 405


def test_upload_queue_limit_returns_429_with_retry_after(client, monkeypatch):
    # The maximum that the page names.
    answer = client.post("/api/encodings", files={"file": ("t.txt", b"some text\n" * 200_000)})
    assert (answer.status_code, answer.json().get("n_texts")) == (201, 200_000)
    busy = BusyError("Too many uploads at once. Try again in 7 seconds.", retry_seconds=7)
    monkeypatch.setattr(Parsers, "run", AsyncMock(side_effect=busy))
    rows = ("rows.tsv", b"sentence\tlabel\na\t1\n")
    for kind, files in (("datasets", {"train": rows, "validation": rows}), ("encodings", {"file": rows})):
        for path in (f"/api/{kind}", f"/{kind}"):
            answer = client.post(path, files=files, headers={"accept": "text/html"})
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
            assert "Too many uploads at once. Try again in 7 seconds." in answer.text


@pytest.mark.sandbox
def test_client_retries_rejected_upload_and_download(tmp_path, monkeypatch):
    bodies = []

    def answer(request):
        bodies.append(request.read())
        if len(bodies) < 3:
            problem = {"detail": "Too many uploads at once.", "field": None}
            return httpx2.Response(429, headers={"Retry-After": "0"}, json=problem)
        return httpx2.Response(201, json={"id": "1"})

    (tmp_path / "texts.txt").write_text("some text")
    with Isoscope("http://127.0.0.1:1") as isoscope:
        transport = httpx2.MockTransport(answer)
        monkeypatch.setattr(isoscope, "_client", httpx2.Client(base_url="http://127.0.0.1:1", transport=transport))
        assert isoscope.upload_texts(tmp_path / "texts.txt") == {"id": "1"}
        assert [b"some text" in body for body in bodies] == [True, True, True]
        bodies.clear()
        assert isoscope.download("/file", tmp_path / "file").read_bytes() == b'{"id":"1"}'
        bodies.clear()
        monkeypatch.setattr(connection, "BUSY_SECONDS", -1.0)
        with pytest.raises(connection.RefusedError, match="Too many uploads at once"):
            isoscope.upload_texts(tmp_path / "texts.txt")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.sandbox
def test_readers_are_served_while_sixty_writers_wait(empty_dashboard):
    read_while_writers_wait(empty_dashboard, seconds=4)


@pytest.fixture
def path(context):
    return f"/experiments/{add_experiment(context)}"


def rename(client, path, name, *, by_script=False):
    if by_script:
        assert client.patch(f"/api{path}", json={"name": name}).status_code == 200
    else:
        assert client.post(f"{path}/description", data={"name": name}, headers=HTMX).status_code == 303


def test_polls_share_an_answer_until_it_expires(client, path, monkeypatch):
    monkeypatch.setattr("app.web.polls.SHARED_SECONDS", 60.0)
    first = client.get(path, headers=HTMX)
    rename(client, path, "by a script", by_script=True)
    assert client.get(path, headers=HTMX).content == first.content
    assert "by a script" in client.get(path).text, "opening the page renders it anew"
    monkeypatch.setattr("app.web.polls.SHARED_SECONDS", 0.1)
    client.get(f"{path}?tab=runs", headers=HTMX)
    rename(client, path, "again", by_script=True)
    time.sleep(0.2)
    assert "again" in client.get(f"{path}?tab=runs", headers=HTMX).text


def test_polls_do_not_mix_addresses_or_encodings_and_see_changes(client, path, monkeypatch):
    monkeypatch.setattr("app.web.polls.SHARED_SECONDS", 60.0)
    page, plain, runs = (
        client.get(path, headers=HTMX),
        client.get(path, headers=HTMX | {"Accept-Encoding": "identity"}),
        client.get(path, params={"tab": "runs"}, headers=HTMX),
    )
    assert (page.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
    assert len({page.text, runs.text}) == 2
    again = client.get(path, headers=HTMX)
    assert (again.content, dict(again.headers)) == (page.content, dict(page.headers))
    client.get(path, headers=HTMX)
    rename(client, path, "on the page")
    assert "on the page" in client.get(path, headers=HTMX).text


def test_pages_are_private_and_static_files_public(client, path):
    for address in (path, f"/api{path}", "/nowhere"):
        assert client.get(address).headers["cache-control"] == "private, no-cache"
    assert client.get("/static/app.css").headers["cache-control"] == "public"
