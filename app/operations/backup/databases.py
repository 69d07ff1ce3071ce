"""Copy and load both databases by their engine's means: SQLite's online backup, pg_dump and pg_restore."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from sqlalchemy import Connection, Engine, Inspector, inspect, make_url, text

from app.core.settings import Settings, driven
from app.db.session import engine_on
from app.operations.backup.manifest import Engine as EngineName
from app.queue import ENGINE_SCHEMA
from isoscope.core.errors import ConflictError, InvalidError, UnavailableError

INSTALL = "Install PostgreSQL's client programs, of the server's version or newer, and put them on the PATH"


@contextmanager
def snapshot(engine: Engine) -> Iterator[tuple[str, Connection]]:
    """Hold one moment of a database; yield its name, by which pg_dump sees it, and a connection that does."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        yield str(connection.scalar(text("select pg_export_snapshot()"))), connection


def dump(url: str, target: Path, moment: str) -> None:
    """Write a database as it was at a moment that ``snapshot`` holds.

    Raises:
        UnavailableError: pg_dump is not here, or fails.

    """
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={moment}", f"--file={target}"]
    _run("pg_dump", url, options)


def load_dump(url: str, dumped: Path) -> None:
    """Write a dump into a database, in one transaction.

    Raises:
        UnavailableError: pg_restore is not here, or fails; the database is as it was.

    """
    options = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    _run("pg_restore", url, [*options, str(dumped)])


def require_postgresql_programs() -> None:
    """Raise ConflictError where PostgreSQL's programs are not here."""
    for program in ("pg_dump", "pg_restore"):
        _find(program)


def _run(program: str, url: str, options: list[str]) -> None:
    known, password = _without_password(url)
    environment = os.environ | ({"PGPASSWORD": password} if password else {})
    command = [_find(program), "--no-password", f"--dbname={known}", *options]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        words = " ".join(ended.stderr.split()) or f"it ended with {ended.returncode}"
        advice = f" {INSTALL}." if "version mismatch" in words or "unsupported version" in words else ""
        raise UnavailableError(f"{program} failed: {words.rstrip('.')}.{advice}")


def _find(program: str) -> str:
    if (found := shutil.which(program)) is None:
        raise ConflictError(f"There is no {program} here. {INSTALL}.")
    return found


def _without_password(url: str) -> tuple[str, str | None]:
    """Return the URL as libpq reads it, without the password, which other users would see among the processes."""
    parsed = make_url(url).set(drivername="postgresql")
    in_query = parsed.query.get("password")
    password = parsed.password or (in_query if isinstance(in_query, str) else None)
    plain = parsed.set(password=None).difference_update_query(["password"])
    return plain.render_as_string(hide_password=False), None if password is None else str(password)


ASIDE = "_before_restore"


class Database(NamedTuple):
    """A database of the settings, and the name of its copy in a backup."""

    name: str
    url: str

    @property
    def engine(self) -> EngineName:
        """What it runs on."""
        return "sqlite" if self.url.startswith("sqlite") else "postgresql"

    @property
    def filename(self) -> str:
        """Of its copy."""
        return f"{self.name}.{'sqlite' if self.engine == 'sqlite' else 'dump'}"

    @property
    def file(self) -> Path:
        """Of a SQLite database."""
        return Path(str(make_url(self.url).database)).absolute()

    @contextmanager
    def copied(self, folder: Path) -> Iterator[tuple[Path, Connection]]:
        """Write what is in it at one moment into a folder; yield where, and a connection that sees the same."""
        target = folder / self.filename
        if self.engine == "postgresql":
            with _connected(self) as engine, snapshot(engine) as (moment, connection):
                dump(self.url, target, moment)
                yield target, connection
            return
        copy_database(self.file, target)
        with _connected(self._replace(url=f"sqlite:///{target}")) as engine, engine.connect() as connection:
            yield target, connection


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment, by SQLite's online backup; writers do not wait.

    Raises:
        InvalidError: the copy does not pass SQLite's own check.

    """
    with closing(sqlite3.connect(source)) as living, closing(sqlite3.connect(target)) as copy:
        living.backup(copy)
        # One file, without a log of its own beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        target.unlink()
        raise InvalidError(f"{source} is damaged: {found}. Restore an earlier backup, or see SQLite's .recover.")


def databases_of(settings: Settings) -> list[Database]:
    """Return the job engine's database, where that is one of its own, and then the metrics database.

    In this order they are copied: a job that ends in between then waits in the one and has ended in the other, which
    its worker sees when it takes it up.
    """
    metrics, queue = Database("metrics", settings.database), Database("queue", settings.queue)
    same = metrics.engine == queue.engine == "postgresql" and _plain(metrics.url) == _plain(queue.url)
    return [metrics] if same else [queue, metrics]


def require_programs(databases: list[Database]) -> None:
    """Raise ConflictError where a database needs programs that are not here."""
    if any(one.engine == "postgresql" for one in databases):
        require_postgresql_programs()


def tables_in(database: Database) -> bool:
    """Whether a PostgreSQL database has tables of ours or of the job engine."""
    with _connected(database) as engine:
        found = inspect(engine)
        return found.has_table("alembic_version") or ENGINE_SCHEMA in found.get_schema_names()


SECONDS_TO_LEAVE = 2.0
"""A session that its client has closed is listed until its process has ended."""


def others_connected(database: Database) -> bool:
    """Say whether others have a session on a PostgreSQL database; the server's own work on it does not count."""
    others = text(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
        "and backend_type = 'client backend'"
    )
    until = monotonic() + SECONDS_TO_LEAVE
    with _connected(database) as engine, engine.connect() as connection:
        while connection.scalar(others):
            if monotonic() > until:
                return True
            connection.rollback()  # within a transaction the list stays what it was
            sleep(0.1)
    return False


def load(database: Database, dumped: Path) -> None:
    """Put a dump in the place of what a PostgreSQL database has, which comes back if that fails."""
    with _connected(database) as engine:
        kept = _put_aside(engine)
        try:
            load_dump(database.url, dumped)
        except BaseException:
            _bring_back(engine, kept)
            raise
        with engine.begin() as connection:
            for schema in kept:
                connection.execute(text(f'drop schema "{schema}{ASIDE}" cascade'))


def _put_aside(engine: Engine) -> list[str]:
    """Rename the schemas that have tables; those that are empty stay."""
    with engine.begin() as connection:
        found = inspect(connection)
        used = [one for one in ("public", ENGINE_SCHEMA) if one in found.get_schema_names() and _is_used(found, one)]
        for schema in used:
            connection.execute(text(f'alter schema "{schema}" rename to "{schema}{ASIDE}"'))
        if "public" in used:
            connection.execute(text("create schema public"))
    return used


def _is_used(found: Inspector, schema: str) -> bool:
    return schema == ENGINE_SCHEMA or bool(found.get_table_names(schema))


def _bring_back(engine: Engine, kept: list[str]) -> None:
    with engine.begin() as connection:
        for schema in kept:
            connection.execute(text(f'drop schema if exists "{schema}" cascade'))
            connection.execute(text(f'alter schema "{schema}{ASIDE}" rename to "{schema}"'))


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


def _connected(database: Database) -> AbstractContextManager[Engine]:
    return engine_on(driven(database.url))
