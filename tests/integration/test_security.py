import os
import socket
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

import httpx2
import numpy as np
import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.core.peer import NOBODY, peer_uid
from app.core.settings import MIB, Settings
from app.main import create_app
from app.operations.doctor import check_access
from app.web.security import DELAY_SECONDS, MAX_DELAYED
from app.web.tokens import TokenRequest, create_token
from tests.serving import empty_settings, serve_in_thread, web_process
from tests.uploads.good import npy

TOKEN = "a-secret-of-some-length"
HOST = "http://lab.example.org"
HEAD_PATHS = (
    "/", "/embeddings", "/queue", "/api/health", "/api/embeddings", "/static/app.css", "/nowhere", "/api/openapi.json",
)  # fmt: skip
OTHER_UID = 65534
ASK = f"""
import os, sys, httpx2
client = httpx2.Client(base_url=sys.argv[1], headers=dict(zip(sys.argv[3::2], sys.argv[4::2])), timeout=20)
client.get("/api/health")  # late imports, which the other user may not read
client.close()
os.setuid({OTHER_UID})
print(httpx2.request("GET", sys.argv[1] + sys.argv[2], headers=dict(zip(sys.argv[3::2], sys.argv[4::2]))).text)
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="Only root can become another user.")


def change_settings(settings, **changes):
    return Settings(**settings.model_dump() | changes)


@pytest.fixture
def guarded_app(context):
    return create_app(change_settings(context.settings, access_token=TOKEN, host="0.0.0.0"))


@pytest.fixture
def guarded(guarded_app):
    with TestClient(guarded_app, base_url=HOST, follow_redirects=False) as client:
        yield client


def test_only_loopback_host_names_are_answered(client):
    for host in ["localhost:8000", "127.0.0.1", "[::1]:8000"]:
        assert client.get("/api/health", headers={"Host": host}).status_code == 200
    for host in ["evil.example.org", "localhost.evil.org", "", "[::1"]:
        answer = client.get("/api/embeddings", headers={"Host": host})
        assert (answer.status_code, "ISOSCOPE_ALLOWED_HOSTS" in answer.json()["detail"]) == (421, True)


def test_allowed_host_is_answered(context):
    settings = change_settings(context.settings, allowed_hosts=["lab.example.org"])
    with TestClient(create_app(settings), base_url="http://lab.example.org:8000") as client:
        assert client.get("/api/health").status_code == 200


def test_cross_site_changes_are_refused(client):
    cases = [
        {"Origin": "http://evil.example.org"}, {"Origin": "null"}, {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:9999"},
    ]  # fmt: skip
    for headers in cases:
        for method, path in (("POST", "/api/experiments"), ("DELETE", "/api/embeddings/x")):
            answer = client.request(method, path, headers=headers)
            assert (answer.status_code, "another site" in answer.json()["detail"]) == (403, True), (method, path)
    for headers in [{}, {"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"}]:
        assert client.delete("/api/embeddings/x", headers=headers).status_code == 404


def test_pages_without_token_redirect_to_login_and_back(guarded):
    assert guarded.get("/api/embeddings").status_code == 401
    page = guarded.get("/embeddings")
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/embeddings")
    assert guarded.get("/experiments/x?view=lambda").headers["location"] == "/login?next=/experiments/x%3Fview%3Dlambda"
    assert guarded.post("/runs/x/cancel").headers["location"] == "/login?next=/"
    assert guarded.get("/queue/status", headers={"HX-Request": "true"}).status_code == 401
    assert guarded.get("/api/embeddings", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert guarded.get("/api/embeddings", headers={"Authorization": "Bearer wrong"}).status_code == 401
    wrong = guarded.post("/login", data={"token": "wrong", "next": "/embeddings"})
    assert (wrong.status_code, "That is not a valid access token" in wrong.text) == (401, True)
    right = guarded.post("/login", data={"token": TOKEN, "next": "/embeddings"})
    assert (right.status_code, right.headers["location"]) == (303, "/embeddings")
    assert "samesite=strict" in right.headers["set-cookie"].lower()
    assert "httponly" in right.headers["set-cookie"].lower()
    assert guarded.get("/embeddings").status_code == 200
    for target in ["https://evil.example.org", "//evil.example.org", "/\\evil.example.org"]:
        assert guarded.post("/login", data={"token": TOKEN, "next": target}).headers["location"] == "/"


def test_answers_carry_csp_and_unknown_routes_say_so(client):
    for path in ("/", "/api/health", "/api/embeddings/none", "/nowhere", "/static/app.css"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    nowhere = client.get("/api/nowhere")
    assert (nowhere.status_code, nowhere.json()["detail"]) == (404, "There is no page /api/nowhere.")
    wrong = client.patch("/api/embeddings")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert wrong.json()["detail"] == "/api/embeddings does not take PATCH."
    garbage = client.post("/api/experiments", content=b"\xff", headers={"Content-Type": "application/json"})
    assert garbage.status_code == 400
    assert garbage.json()["detail"] == "The body cannot be read: expected JSON in UTF-8, or a form with its files."
    assert "/logout" not in client.get("/").text
    assert client.post("/logout").status_code == 303


def test_body_over_limit_is_refused_or_cut_off(context):
    settings = change_settings(context.settings, max_upload_bytes=1000)
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        answer = client.post("/api/embeddings", content=b"", headers={"Content-Length": "5000000"})
    assert (answer.status_code, "at most 1,001,000 bytes" in answer.json()["detail"]) == (413, True)
    sent = 0

    def endless():
        nonlocal sent
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.npy"\r\n\r\n'
        yield head
        for _ in range(200):
            sent += 1
            yield bytes(100_000)

    with TestClient(create_app(settings), base_url="http://localhost") as client:
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        answer = client.post("/api/embeddings", content=endless(), headers=headers)
    assert answer.status_code == 413


def test_only_uploads_and_ground_truth_may_be_large(client):
    for path in ["/login", "/api/experiments", "/datasets/hub", "/nowhere"]:
        answer = client.post(path, content=b"", headers={"Content-Length": "2000000"})
        assert answer.status_code == 413
    for path in ["/embeddings/none/tasks", "/api/embeddings/none/tasks"]:
        answer = client.post(path, data={"kind": "pairs"}, files={"file": ("pairs.csv", bytes(1_100_000))})
        assert answer.status_code == 404


def test_internal_error_tells_only_its_number(context):
    app = create_app(context.settings)

    @app.get("/api/broken")
    def broken():
        raise RuntimeError("secret detail")

    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        answer = client.get("/api/broken")
    assert (answer.status_code, "secret" not in answer.text) == (500, True)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "Find the cause in the server log under" in answer.json()["detail"]


def sign_in(client):
    return client.post("/login", data={"token": TOKEN})


def test_session_outlives_restart_and_ends_with_token(guarded, context):
    cookie = sign_in(guarded).cookies["session"]
    for token, status in ((TOKEN, 200), ("another-secret-of-some-length", 303)):
        app = create_app(change_settings(context.settings, access_token=token, host="0.0.0.0"))
        with TestClient(app, base_url=HOST, cookies={"session": cookie}, follow_redirects=False) as client:
            assert client.get("/embeddings").status_code == status


def test_cookie_is_secure_over_tls(guarded_app):
    for scheme, secure in (("http", False), ("https", True)):
        with TestClient(guarded_app, base_url=f"{scheme}://lab.example.org", follow_redirects=False) as client:
            assert ("secure" in sign_in(client).headers["set-cookie"].lower()) is secure


def test_logout_ends_session_and_forged_host_opens_nothing(guarded):
    cookie = sign_in(guarded).cookies["session"]
    assert 'action="/logout"' in guarded.get("/embeddings").text
    out = guarded.post("/logout")
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    assert guarded.get("/embeddings").headers["location"] == "/login?next=/embeddings"
    assert "/logout" not in guarded.get("/login").text
    guarded.cookies.set("session", cookie)
    assert guarded.get("/embeddings").status_code == 303
    for host in ["lab.example.org/static/", "lab.example.org/login?", "x/api/health#", "a@b", "a\\b"]:
        assert guarded.get("/api/embeddings", headers={"Host": host}).status_code == 421
        assert guarded.get("/embeddings", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("ask", ["form", "header"])
def test_wrong_token_is_delayed_and_few_may_wait(guarded, ask):
    def guess(_=None):
        if ask == "form":
            return guarded.post("/login", data={"token": "wrong"}).status_code
        return guarded.get("/api/embeddings", headers={"Authorization": "Bearer wrong"}).status_code

    began = time.monotonic()
    assert guess() == 401
    assert time.monotonic() - began >= DELAY_SECONDS
    with ThreadPoolExecutor(2 * MAX_DELAYED) as threads:
        codes = list(threads.map(guess, range(2 * MAX_DELAYED)))
    assert set(codes) <= {401, 429}
    assert codes.count(401) >= MAX_DELAYED


MARK = "marked-7f3a"
TRAVERSALS = (
    f"../../{MARK}", f"..\\..\\{MARK}", f"/etc/{MARK}", f"{MARK}/../../{MARK}", f"%2e%2e/{MARK}", f"{MARK}\0.npy",
)  # fmt: skip
TEXTS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(8))
PATHS = [
    "/embeddings/{}", "/embeddings?q={}", "/compare?id={}", "/trash/{}/purge", "/embeddings/{}/figures/zeta.csv",
    "/embeddings/x/figures/{}.json", "/datasets/{}", "/runs/{}",
    "/experiments/{}", "/experiments/x/figures/{}.csv", "/runs/x/figures/{}.json", "/static/{}", "/static/vendor/{}",
    "/measures/{}", "/{}", "/api/embeddings/{}", "/api/datasets/{}", "/api/runs/{}", "/api/experiments/{}",
    "/api/embeddings/{}/curves/zeta", "/login?next={}", "/experiments/new?dataset_id={}&model={}",
]  # fmt: skip

OPENING = {"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir"}

watched: list[list[str]] = []


def _audit(event, arguments):
    if watched and event in OPENING:
        watched[0].extend(str(argument) for argument in arguments[:2])


sys.addaudithook(_audit)  # cannot be removed; does nothing unless a test watches


@pytest.fixture
def opened_paths():
    watched.append([])
    yield watched[0]
    watched.clear()


def test_request_paths_and_file_names_open_no_file(client, opened_paths):
    for path in PATHS:
        for traversal in TRAVERSALS:
            answer = client.get(path.replace("{}", quote(traversal, safe="")))
            assert answer.status_code < 500
            assert "root:" not in answer.text
    assert [path for path in opened_paths if MARK in path] == []
    for traversal in TRAVERSALS:
        answer = client.post("/api/embeddings", files={"file": (f"{traversal}.csv", b"a,b\n1,2\n3,4\n")})
        if answer.is_success:
            assert not {"/", "\\", "\0"} & set(answer.json()["filename"])
    assert opened_paths  # the upload was written
    assert [path for path in opened_paths if MARK in path] == []


def test_model_is_never_opened_as_a_path(client, opened_paths):
    for model in [f"../{MARK}", f"/{MARK}", f"{MARK}/../..", f"..\\{MARK}", "..", "."]:
        dataset = client.post("/api/datasets", files={"train": ("t.tsv", TEXTS), "validation": ("v.tsv", TEXTS)}).json()
        body = {"model": model, "dataset_id": dataset["id"], "text_columns": ["sentence"], "label_column": "label"}
        answer = client.post("/api/experiments", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, "model")
        assert [path for path in opened_paths if MARK in path] == []


def ask_as_other_user(address, path, *headers):
    command = [sys.executable, "-c", ASK, address, path, *headers]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@as_root
def test_other_user_needs_token(context, address):
    assert httpx2.get(f"{address}/api/space", timeout=60).status_code == 200
    for headers in ([], ["X-Forwarded-For", "10.0.0.1"], ["Authorization", "Bearer wrong"], ["Cookie", "session=x"]):
        assert "another user of this machine sent this request" in ask_as_other_user(address, "/api/space", *headers)
    page = ask_as_other_user(address, "/embeddings", "Accept", "text/html")
    assert "another user of this machine sent this request" in page
    assert '<a href="/access">' not in page
    secret = create_token(context, TokenRequest(name="Ada"))[1]
    assert "reserve_bytes" in ask_as_other_user(address, "/api/space", "Authorization", f"Bearer {secret}")
    assert "ok" in ask_as_other_user(address, "/api/health")


@as_root
@pytest.mark.slow
def test_other_user_cannot_read_files(migrated, cloud):
    migrated.root.chmod(0o755)
    with web_process(migrated) as address:
        response = httpx2.post(f"{address}/api/embeddings", files={"file": ("cloud.npy", npy(cloud))}, timeout=60)
        assert response.status_code == 201
    assert stat.S_IMODE(migrated.root.stat().st_mode) == 0o700
    new_files = [path for path in migrated.files.rglob("*") if path.is_file()]
    assert new_files
    assert [path for path in new_files if path.stat().st_mode & 0o077] == []
    look = f"import os; os.setuid({OTHER_UID}); open({str(migrated.sqlite_files[0])!r})"
    answer = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert "PermissionError" in answer.stderr


def test_closed_connection_has_no_owner():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        address = client.getsockname()
        assert peer_uid(address, server.getsockname()) == os.geteuid()
        accepted, _ = server.accept()
        client.close()
        assert peer_uid(address, server.getsockname()) == NOBODY
        accepted.close()
    assert peer_uid(("testclient", 1), ("testserver", 80)) is None


def test_shared_folder_keeps_its_mode(settings):
    settings.root.mkdir(parents=True)
    settings.root.chmod(0o1777)
    settings.create_folders()
    assert stat.S_IMODE(settings.root.stat().st_mode) == 0o1777


def test_doctor_warns_if_users_cannot_be_told_apart(settings, monkeypatch):
    assert [level for level, *_ in check_access(settings) if level == "warning"] == []
    monkeypatch.setattr("app.operations.doctor.peer_uid", lambda client, server: None)
    (warning,) = [result for result in check_access(settings) if result[0] == "warning"]
    assert "Every user of this machine has access" in warning[1]
    assert "ISOSCOPE_ACCESS_TOKEN" in warning[2]


@pytest.fixture(scope="module")
def port(tmp_path_factory, empty_databases):
    settings = empty_settings(tmp_path_factory.mktemp("refused") / "data", empty_databases)
    with serve_in_thread(create_app(settings.model_copy(update={"access_token": SecretStr(TOKEN)}))) as url:
        yield urlsplit(url).port


def answer_until_end(port, request, length, sent=b""):
    head = f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + sent)
        return b"".join(iter(lambda: connection.recv(10_000), b"")).lower()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("POST /api/embeddings", 401), ("POST /embeddings", 303), ("POST /login", 413), ("POST /api/health", 405)],
)
def test_early_refusal_closes_connection(port, request_line, status):
    answer = answer_until_end(port, request_line, 900_000)
    assert answer.startswith(f"http/1.1 {status} ".encode())
    assert b"connection: close" in answer


def test_login_takes_four_kilobytes_and_keeps_connection(port):
    body = f"token={TOKEN}&next=/{'a' * 3000}".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        head = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        for _ in range(2):
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = connection.recv(10_000).lower()
            assert answer.startswith(b"http/1.1 303 ")
            assert b"connection: close" not in answer


def test_head_matches_get_without_body(client):
    for path in HEAD_PATHS:
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        names = got.headers.keys() - {"content-length"}
        assert {name: head.headers[name] for name in names} == {name: got.headers[name] for name in names}
    content = npy(np.zeros((1024, 1024)))
    embedding = client.post("/api/embeddings", files={"file": ("a.npy", content)}).json()
    head = client.head(f"/embeddings/{embedding['id']}/files/0")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(content) > 8 * MIB
    assert client.head("/api/queue/pause").status_code == 405
