"""What has a database here runs on SQLite, and on PostgreSQL too where it is marked ``both_databases``.

Marked is what a dialect, a lock, a race, the engine or what a column holds may do otherwise there, with one test
of each kind of query, search and removal. The rest only reads and writes rows, which is the same on any database.
"""

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.context import Context, create_context
from app.core.settings import Settings
from app.main import create_app
from isoscope import sending
from isoscope.cli import main
from isoscope.client import Isoscope
from tests.listening import Server
from tests.serving import answering


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_databases"):
        metafunc.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(scope="module")
def trained_once() -> dict[str, Any]:
    """What is trained or measured for the first test of a module that wants it, and is the same for the others."""
    return {}


@pytest.fixture
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    if getattr(request, "param", "sqlite") == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("postgresql_url")}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have executors rest for a moment between two attempts, in place of seconds."""
    monkeypatch.setattr("workers.executor.FIRST_PAUSE_SECONDS", 0.01)


@pytest.fixture
def elsewhere(empty_dashboard: Settings) -> Iterator[TestClient]:
    """Another dashboard on a database of its own, SQLite, that is empty; ``rows`` are its sessions."""
    context = create_context(empty_dashboard)
    with TestClient(create_app(empty_dashboard), base_url="http://localhost", follow_redirects=False) as client:
        client.rows = context.sessions
        yield client
    context.close()


@pytest.fixture
def unboxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read archives in this process: one of its own takes a second, and is for tests of what it keeps away."""
    monkeypatch.setattr("workers.imports.job.read_in_sandbox", lambda settings, check, path: check(path))


@pytest.fixture
def address(context: Context) -> Iterator[str]:
    """Where an application answers that has the rows of ``context``."""
    with answering(create_app(context.settings)) as address:
        yield address


@pytest.fixture
def isoscope(address: str) -> Iterator[Isoscope]:
    with Isoscope(address) as isoscope:
        yield isoscope


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> Callable[..., tuple[int, str, str]]:
    """Run a command against that application; its exit code and what it printed."""
    monkeypatch.setenv("ISOSCOPE_URL", address)
    monkeypatch.delenv("ISOSCOPE_ACCESS_TOKEN", raising=False)

    def typed(*words: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["isoscope", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return typed


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that keeps what a script sends, which then waits for hardly anything."""
    monkeypatch.setattr(sending, "GATHER_SECONDS", 0.01)
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()
