import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from app.core.settings import Settings
from app.main import create_app
from app.web.security import DELAY_SECONDS, MAX_DELAYED

TOKEN = "a-secret-of-some-length"
HOST = "http://lab.example.org"


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
