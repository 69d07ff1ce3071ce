import asyncio
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import quote

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from starlette.responses import Response
from starlette.routing import Mount, Route

from app.core.settings import Settings
from app.db.models import AccessScope, AccessToken, Activity, LoginSession
from app.db.removal import ACTIVITY_RETENTION, prune_activity
from app.db.session import acquire_locks
from app.db.types import utcnow
from app.main import create_app
from app.routes import router
from app.web.activity import UNRECORDED_ROUTES, find_launcher, list_activity
from app.web.security import MAX_DELAYED, MAX_LOOKUPS
from app.web.tokens import SESSION_LIFETIME, TokenRequest, create_token, revoke_token
from tests.sealed import add_sealed
from tests.serving import serve_in_thread
from tests.waiting import patience

OWNER_TOKEN = "a-secret-of-some-length"
HOST = "http://lab.example.org"
GONE = "0" * 32
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
# The access that each route requires; a route must match exactly one rule.
OPEN, ANYONE, ADMIN = "open", "anyone", "admin"
RULES = {
    r"/login|/api/health|/static/x": OPEN,
    r"/access|/tokens(/.*)?|/api/tokens(/.*)?|/api/activity": ADMIN,
    r"(/api)?/(embeddings|experiments|runs|datasets|encodings|tasks|imports|compare)(/.*)?": ANYONE,
    r"(/api)?/(queue|samples|trash|playground|measures|space)(/.*)?": ANYONE,
    r"/|/logout|/docs(/.*)?|/api/(presets|studies|tags|openapi\.json)": ANYONE,
}
TOKENS = ("none", "wrong", "revoked", "expired", "read", "write", "admin", "owner")


@pytest.fixture
def settings(tmp_path, database):
    return Settings(data_dir=tmp_path / "data", sample=False, access_token=OWNER_TOKEN, host="0.0.0.0", **database)


@pytest.fixture
def app(context):
    return create_app(context.settings)


@pytest.fixture
def guarded(app):
    with TestClient(app, base_url=HOST, follow_redirects=False) as client:
        yield client


def make_token(context, name="Ada", scope="write", **fields):
    return create_token(context, TokenRequest(name=name, scope=scope, **fields))[1]


def expire(context, name):
    with context.sessions.begin() as session:
        tokens = update(AccessToken).where(AccessToken.name == name)
        session.execute(tokens.values(expires_at=utcnow() - timedelta(seconds=1)))


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def list_app_routes(routes, prefix=""):
    for route in routes:
        if included := getattr(route, "original_router", None):
            yield from list_app_routes(included.routes, prefix + route.include_context.prefix)
        elif isinstance(route, Mount):
            yield "GET", f"{route.path}/x"
        else:
            yield from ((method, prefix + route.path) for method in route.methods - {"HEAD"})


def find_rules(path):
    return [rule for pattern, rule in RULES.items() if re.fullmatch(pattern, path)]


def expected_refusal(rule, method, path, token):
    if rule == OPEN:
        return None
    if token in ("none", "wrong", "revoked", "expired"):
        return 401 if path.startswith("/api/") else 303
    if rule == ADMIN and token in ("read", "write"):
        return 403
    return 403 if token == "read" and method != "GET" and path != "/logout" else None


def test_every_route_has_one_rule(app):
    routes = set(list_app_routes(app.routes))
    assert routes >= {("POST", "/api/experiments"), ("POST", "/experiments"), ("GET", "/api/openapi.json")}
    assert len(routes) > 250
    assert [path for _, path in routes if len(find_rules(path)) != 1] == []


@pytest.mark.parametrize("token", TOKENS)
def test_routes_admit_tokens_by_rule(app, context, token, monkeypatch):
    """The middleware is real; one catch-all route replaces the routes."""
    reached = 418
    monkeypatch.setattr("app.web.security.DELAY_SECONDS", 0)
    secrets = {"none": None, "wrong": "isoscope_wrong", "owner": OWNER_TOKEN} | {
        name: make_token(context, f"{name} token", name if name in list(AccessScope) else "admin")
        for name in ("revoked", "expired", "read", "write", "admin")
    }
    revoke_token(context, "revoked token")
    expire(context, "expired token")
    requests = sorted((method, re.sub(r"\{\w+(:path)?\}", GONE, path)) for method, path in list_app_routes(app.routes))
    app.router.routes[:] = [Route("/{path:path}", lambda _: Response(status_code=reached), methods=METHODS)]
    app.state.context = context
    headers = bearer(secrets[token]) if secrets[token] else {}

    async def request_all():
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url=HOST, headers=headers) as client:
            return [(await client.request(method, path)).status_code for method, path in requests]

    statuses = dict(zip(requests, asyncio.run(request_all()), strict=True))
    expected = {
        (method, path): expected_refusal(*find_rules(path), method, path, token) or reached for method, path in requests
    }
    assert statuses == expected


def test_token_is_shown_once_and_stored_hashed(guarded, context):
    answer = guarded.post("/api/tokens", json={"name": "Ada", "days": 30}, headers=bearer(OWNER_TOKEN))
    assert answer.status_code == 201
    secret = answer.json()["token"]
    listed = guarded.get("/api/tokens", headers=bearer(OWNER_TOKEN))
    assert secret not in listed.text
    (token,) = listed.json()
    assert (token["name"], token["scope"], token["state"]) == ("Ada", "write", "valid")
    database = context.settings.sqlite_files[0]
    stored = b"".join(file.read_bytes() for file in database.parent.glob(f"{database.name}*"))
    assert token["id"].encode() in stored
    assert secret.encode() not in stored


@pytest.mark.both_databases
def test_valid_tokens_have_unique_names(guarded):
    def create(name):
        return guarded.post("/api/tokens", json={"name": name}, headers=bearer(OWNER_TOKEN))

    token_id = create("Ada").json()["id"]
    for name in ("ada", "owner", "local user", " "):
        refused = create(name)
        assert (refused.status_code, refused.json()["field"]) == (422, "name")
    assert guarded.delete(f"/api/tokens/{token_id}", headers=bearer(OWNER_TOKEN)).json()["state"] == "revoked"
    assert create("Ada").status_code == 201


def test_last_use_is_written_once_per_minute(guarded, context):
    secret = make_token(context)
    times = []
    for _ in range(2):
        assert guarded.get("/api/space", headers=bearer(secret)).status_code == 200
        times.append(context.get(AccessToken, context.scalars(AccessToken.__table__.select())[0]).last_used_at)
    assert times[0] is not None
    assert times[0] == times[1]


def sign_in(client, secret):
    return client.post("/login", data={"token": secret}).cookies["session"]


def test_token_readers_ignore_locked_database(app, context):
    secrets = [make_token(context, f"reader {i}", "read") for i in range(MAX_LOOKUPS + 2)]
    with serve_in_thread(app) as address, context.sessions() as session:
        acquire_locks(session.connection(), "all")
        began = time.monotonic()
        for secret in secrets * 2:
            assert httpx2.get(f"{address}/api/tags", headers=bearer(secret)).status_code == 200
        assert time.monotonic() - began < 5 * patience(), "a writer waits 30 seconds"
        session.rollback()


@pytest.mark.parametrize("end", ["revoke", "expire", "age"])
def test_session_ends_with_token_or_after_14_days(guarded, context, end):
    sign_in(guarded, make_token(context))
    assert guarded.get("/embeddings").status_code == 200
    if end == "revoke":
        revoke_token(context, "Ada")
    elif end == "expire":
        expire(context, "Ada")
    else:
        with context.sessions.begin() as session:
            session.execute(update(LoginSession).values(created_at=utcnow() - SESSION_LIFETIME - timedelta(seconds=1)))
    assert guarded.get("/embeddings").status_code == 303


def test_read_session_may_sign_out(guarded, context):
    sign_in(guarded, make_token(context, scope="read"))
    assert guarded.post("/queue/pause").status_code == 403
    assert guarded.post("/logout").status_code == 303
    assert context.scalars(LoginSession.__table__.select()) == []


def test_access_page_creates_and_revokes_tokens(guarded, context):
    sign_in(guarded, OWNER_TOKEN)
    assert 'href="/access"' in guarded.get("/measures").text
    created = guarded.post("/tokens", data={"name": "Ada", "scope": "read", "days": ""})
    assert created.headers["cache-control"] == "no-store"
    (secret,) = re.findall(r"isoscope_[\w-]{43}", created.text)
    assert guarded.get("/api/space", headers=bearer(secret)).status_code == 200
    wrong = guarded.post("/tokens", data={"name": "Bob", "scope": "read", "days": "many"})
    assert (wrong.status_code, 'id="days-error"' in wrong.text) == (422, True)
    (action,) = re.findall(r'action="(/tokens/\w+/delete)"', guarded.get("/access").text)
    assert guarded.post(action).headers["location"] == "/access"
    assert guarded.get("/api/space", headers=bearer(secret)).status_code == 401
    assert secret not in guarded.get("/access").text


def test_wrong_tokens_are_logged_and_throttled_per_address(app, caplog, monkeypatch):
    monkeypatch.setattr("app.web.security.DELAY_SECONDS", 0.05)

    def guess(address):  # as a reverse proxy on loopback passes it on
        headers = bearer("guess-7f3a") | {"X-Forwarded-For": address}
        return client.get("/api/space", headers=headers).status_code

    with TestClient(app, base_url=HOST, client=("127.0.0.1", 1)) as client, ThreadPoolExecutor(24) as threads:
        codes = list(threads.map(guess, ["10.0.0.1"] * (4 * MAX_DELAYED) + ["10.0.0.2", "2001:db8::1"]))
    assert set(codes[:-2]) == {401, 429}
    assert codes[-2:] == [401, 401]
    assert "a wrong access token came from 10.0.0.1" in caplog.text
    assert "guess-7f3a" not in caplog.text


def list_activity_rows(client):
    rows = client.get("/api/activity", headers=bearer(OWNER_TOKEN)).json()
    return [(row["by"], row["action"], row["subject"], row["name"]) for row in rows]


@pytest.mark.both_databases
def test_activity_records_token_names(guarded, context):
    texts = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(8))
    ada, bob = bearer(make_token(context)), bearer(make_token(context, "Bob"))
    files = {"train": ("t.tsv", texts), "validation": ("v.tsv", texts)}
    dataset = guarded.post("/api/datasets", files=files, headers=ada).json()
    sweep = {
        "model": "all-MiniLM-L6-v2", "dataset_id": dataset["id"], "text_columns": ["sentence"],
        "label_column": "label", "name": "mine",
    }  # fmt: skip
    experiment = f"/experiments/{guarded.post('/api/experiments', json=sweep, headers=ada).json()['id']}"
    page = guarded.post("/experiments", data=sweep | {"name": "from the page"}, headers=bob).headers["location"]
    assert "by Ada" in guarded.get(experiment, headers=bob).text
    assert guarded.post(f"/api{experiment}/cancel", headers=bob).status_code == 200
    assert guarded.delete(f"/api{experiment}", headers=bob).status_code == 204
    assert guarded.post("/api/experiments", json=sweep | {"model": "none"}, headers=bob).status_code == 422
    assert list_activity_rows(guarded) == [
        ("Bob", "delete experiment", experiment, "mine"),
        ("Bob", "cancel experiment", experiment, "mine"),
        ("Bob", "launch experiment", page, "from the page"),
        ("Ada", "create experiment", experiment, "mine"),
        ("Ada", "create dataset", f"/datasets/{dataset['id']}", "t"),
    ]
    assert guarded.post("/queue/pause", headers=bob).status_code == 303
    access_page = guarded.get("/access?page=9", headers=bearer(OWNER_TOKEN)).text
    assert (f'href="{experiment}"' in access_page, "delete experiment" in access_page) == (True, True)
    assert ("pause everything" in access_page, 'href="/queue/pause"' in access_page) == (True, False)
    assert not Activity(action="purge", subject=experiment).has_page


def test_opening_of_test_scores_records_token_name(guarded, context):
    experiment_id = add_sealed(context)
    path, headers = f"/experiments/{experiment_id}", bearer(make_token(context))
    opened = guarded.post(f"/api{path}/opening", json={"choose": "lambda = 1"}, headers=headers).json()
    assert opened["openings"][0]["by"] == "Ada"
    assert list_activity_rows(guarded)[0][:3] == ("Ada", "open scores", path)


def test_bulk_action_records_each_row(guarded, context):
    headers = bearer(make_token(context))
    names = ("x.csv", "y.csv")
    files = [{"file": (name, b"a,b\n1,2\n3,4\n")} for name in names]
    ids = [guarded.post("/api/embeddings", files=file, headers=headers).json()["id"] for file in files]
    body = {"action": "trash", "ids": [*ids, GONE]}
    assert guarded.post("/api/embeddings/actions", json=body, headers=headers).status_code == 200
    expected = [("Ada", "trash", f"/embeddings/{row_id}", name) for row_id, name in zip(ids, names, strict=True)]
    assert list_activity_rows(guarded)[:2] == expected[::-1]


def test_old_activity_is_pruned_except_launches(context):
    now, experiment = utcnow(), f"/experiments/{GONE}"
    year_ago = now - ACTIVITY_RETENTION - timedelta(seconds=1)
    changes = [("launch experiment", experiment, year_ago), ("cancel experiment", experiment, year_ago),
               ("create dataset", f"/datasets/{GONE}", year_ago), ("cancel experiment", experiment, now)]  # fmt: skip
    with context.sessions.begin() as session:
        session.add_all(
            Activity(action=action, subject=subject, at=at, by="Ada", name="") for action, subject, at in changes
        )
    assert prune_activity(context.sessions) == 2
    rows, total = list_activity(context, 10, 0)
    assert ([row.action for row in rows], total) == (["cancel experiment", "launch experiment"], 2)
    assert find_launcher(context, experiment) == "Ada"


def test_unrecorded_routes_exist():
    assert {route.name for route in list_leaf_routes(router)} >= UNRECORDED_ROUTES


def list_leaf_routes(router):
    for route in router.routes:
        yield from list_leaf_routes(included) if (included := getattr(route, "original_router", None)) else [route]


def test_access_log_omits_queries_and_line_breaks(guarded, context, caplog):
    headers = bearer(make_token(context))
    with caplog.at_level(logging.INFO, logger="app.access"):
        guarded.get("/api/experiments?q=hidden-7f3a", headers=headers)
        guarded.head("/measures", headers=headers)
        guarded.get(f"/embeddings/{quote('x' + chr(10) + 'y', safe='')}", headers=headers)
        guarded.get("/static/app.css")
        for _ in range(3):
            guarded.get("/queue", headers=headers | {"HX-Request": "true"})
        guarded.get("/queue", headers=headers)
    lines = [record.getMessage() for record in caplog.records if record.name == "app.access"]
    assert [re.sub(r"\d+ ms$", "ms", line) for line in lines] == [
        'testclient "Ada" GET /api/experiments 200 ms',
        'testclient "Ada" HEAD /measures 200 ms',
        'testclient "Ada" GET /embeddings/x%0Ay 404 ms',
        'testclient "Ada" GET /queue 200 ms',  # the first of three polls
        'testclient "Ada" GET /queue 200 ms',
    ]


def test_command_creates_lists_and_revokes_tokens(context, run_cli, guarded, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(context.settings.data_dir))
    code, secret, _ = run_cli("tokens", "create", "Ada", "--scope", "read", "--days", "7")
    assert code == 0
    assert guarded.get("/api/space", headers=bearer(secret.strip())).status_code == 200
    assert run_cli("tokens", "create", "Ada")[0] == 1
    code, _, error = run_cli("tokens", "create", "Bob", "--days", "0")
    assert (code, "days" in error or "greater" in error or "at least" in error) == (1, True)
    listed = run_cli("tokens")[1].splitlines()
    assert [line.split()[:3] for line in listed] == [["name", "scope", "state"], ["Ada", "read", "valid"]]
    assert run_cli("tokens", "revoke", "Ada")[1] == "Ada is revoked\n"
    assert guarded.get("/api/space", headers=bearer(secret.strip())).status_code == 401
    assert run_cli("tokens", "revoke", "Ada")[0] == 1
