"""Tests run on SQLite, and also on PostgreSQL if marked ``both_databases``.

The mark is for dialects, locks, races, the engine and column types, and for one test of each kind of query, search and
removal. Other tests only read and write rows, which works the same on both.
"""

import io
import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app import sandbox
from app.context import Context, create_context
from app.core.settings import Settings
from app.main import create_app
from app.sandbox import OutcomePickler, OutcomeUnpickler
from isoscope import sending
from isoscope.cli import main
from isoscope.client import Isoscope
from tests.serving import serve_in_thread


class Server:
    def __init__(self):
        self.requests = []
        self.answer = lambda path, body: (200, {})
        self.headers = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                path = self.path.rsplit("/", 1)[-1]
                owner.requests.append((path, body, self.headers["authorization"]))
                status, document = owner.answer(path, body)
                self.send_response(status)
                for name, value in owner.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def bodies(self, path):
        return [body for requested_path, body, _ in self.requests if requested_path == path]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_databases"):
        metafunc.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(scope="module")
def module_cache() -> dict[str, Any]:
    """A cache for the tests of a module of what the first one trains or measures."""
    return {}


@pytest.fixture
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    if getattr(request, "param", "sqlite") == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("postgresql_url")}


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.executor.FIRST_PAUSE_SECONDS", 0.01)


@pytest.fixture
def other_client(empty_dashboard: Settings) -> Iterator[TestClient]:
    """A second, empty dashboard on SQLite; ``rows`` are its sessions."""
    context = create_context(empty_dashboard)
    with TestClient(create_app(empty_dashboard), base_url="http://localhost", follow_redirects=False) as client:
        client.rows = context.sessions
        yield client
    context.close()


def run_in_process(function: Callable[..., Any], *args: Any, **_: Any) -> Any:
    function, args = pickle.loads(pickle.dumps((function, args)))
    answer = io.BytesIO()
    OutcomePickler(answer).dump(function(*args))
    return OutcomeUnpickler(io.BytesIO(answer.getvalue())).load()


@pytest.fixture(autouse=True)
def sandbox_in_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read uploads in this process, because a sandbox takes half a second to start, unless marked ``sandbox``."""
    if request.node.get_closest_marker("sandbox") is None:
        monkeypatch.setattr(sandbox, "run_in_sandbox", run_in_process)


@pytest.fixture
def address(context: Context) -> Iterator[str]:
    with serve_in_thread(create_app(context.settings)) as address:
        yield address


@pytest.fixture
def isoscope(address: str) -> Iterator[Isoscope]:
    with Isoscope(address) as isoscope:
        yield isoscope


@pytest.fixture
def run_cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> Callable[..., tuple[int, str, str]]:
    """Run a command against that application; return its exit code, stdout and stderr."""
    monkeypatch.setenv("ISOSCOPE_URL", address)
    monkeypatch.delenv("ISOSCOPE_ACCESS_TOKEN", raising=False)

    def run_cli(*words: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["isoscope", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_cli


@pytest.fixture
def run_local(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, int]]:
    """Run a command that needs no dashboard; return what it printed, and its exit code."""

    def run_local(*words: object) -> tuple[Any, int]:
        code = main([*map(str, words)])
        return capsys.readouterr(), code

    return run_local


@pytest.fixture
def run_json(run_local: Callable[..., tuple[Any, int]]) -> Callable[..., Any]:
    def run_json(*words: object) -> Any:
        printed, code = run_local(*words, "--json")
        assert code == 0, printed.err
        return json.loads(printed.out)

    return run_json


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(sending, "GATHER_SECONDS", 0.01)
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()
