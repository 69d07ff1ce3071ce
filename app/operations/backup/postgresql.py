"""Dumps of PostgreSQL databases by its own programs, pg_dump and pg_restore."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, make_url, text

from isoscope.core.errors import ConflictError, UnavailableError

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


def load(url: str, dumped: Path) -> None:
    """Write a dump into a database, in one transaction.

    Raises:
        UnavailableError: pg_restore is not here, or fails; the database is as it was.

    """
    options = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
    _run("pg_restore", url, [*options, str(dumped)])


def require_programs() -> None:
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
