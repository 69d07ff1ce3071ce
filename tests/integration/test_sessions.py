"""Signing in and out: whose cookie, how it is signed, and what a wrong token costs."""

import stat
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from itsdangerous import BadSignature, TimestampSigner

from app.core.settings import Settings
from app.main import create_app
from app.web.security import MOST_SLOWED, SECONDS_SLOWED, session_secret

TOKEN = "a-secret-of-some-length"
HOST = "http://lab.example.org"


@pytest.fixture
def guarded_app(context):
    return create_app(guarded_settings(context))


@pytest.fixture
def guarded(guarded_app):
    with TestClient(guarded_app, base_url=HOST, follow_redirects=False) as client:
        yield client


def guarded_settings(context, token=TOKEN):
    return Settings(**context.settings.model_dump() | {"access_token": token, "host": "0.0.0.0"})


def sign_in(client):
    return client.post("/login", data={"token": TOKEN})


def test_the_cookie_is_signed_with_a_secret_that_is_not_the_token_outlives_a_restart_and_ends_with_another_token(
    guarded, context
):
    cookie = sign_in(guarded).cookies["session"]
    with pytest.raises(BadSignature):
        TimestampSigner(TOKEN).unsign(cookie)
    file = context.settings.root / "session.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_bytes()) == 32
    assert session_secret(context.settings.root) == file.read_bytes()
    for token, status in ((TOKEN, 200), ("another-secret-of-some-length", 303)):
        app = create_app(guarded_settings(context, token))
        with TestClient(app, base_url=HOST, cookies={"session": cookie}, follow_redirects=False) as client:
            assert client.get("/embeddings").status_code == status


def test_the_cookie_is_secure_where_the_browser_came_by_tls(guarded_app):
    for scheme, secure in (("http", False), ("https", True)):
        with TestClient(guarded_app, base_url=f"{scheme}://lab.example.org", follow_redirects=False) as client:
            assert ("secure" in sign_in(client).headers["set-cookie"].lower()) is secure


def test_signing_out_forgets_the_cookie_and_a_forged_host_opens_no_closed_path(guarded):
    sign_in(guarded)
    assert 'action="/logout"' in guarded.get("/embeddings").text
    out = guarded.post("/logout")
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    assert guarded.get("/embeddings").headers["location"] == "/login?next=/embeddings"
    assert "/logout" not in guarded.get("/login").text
    for host in ["lab.example.org/static/", "lab.example.org/login?", "x/api/health#", "a@b", "a\\b"]:
        assert guarded.get("/api/embeddings", headers={"Host": host}).status_code == 421
        assert guarded.get("/embeddings", headers={"Host": host}).status_code == 421


def test_without_a_token_there_is_nothing_to_sign_out_of(client):
    assert "/logout" not in client.get("/").text
    assert client.post("/logout").status_code == 303


@pytest.mark.parametrize("ask", ["form", "header"])
def test_a_wrong_token_is_slow_and_only_some_may_wait_at_once(guarded, ask):
    def guess(_=None):
        if ask == "form":
            return guarded.post("/login", data={"token": "wrong"}).status_code
        return guarded.get("/api/embeddings", headers={"Authorization": "Bearer wrong"}).status_code

    began = time.monotonic()
    assert guess() == 401
    assert time.monotonic() - began >= SECONDS_SLOWED
    with ThreadPoolExecutor(2 * MOST_SLOWED) as threads:
        codes = list(threads.map(guess, range(2 * MOST_SLOWED)))
    assert set(codes) <= {401, 429}
    assert codes.count(401) >= MOST_SLOWED
