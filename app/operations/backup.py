"""Back up a dashboard, which may be running, and restore it into an empty installation.

A backup is a folder: a copy of each database (by VACUUM INTO or pg_dump), ``files`` named by their SHA-256,
``runs`` with the checkpoints of unfinished runs, and ``SHA256SUMS``, which ``sha256sum --check`` reads too.
"""

import os
import shutil
import sqlite3
import subprocess
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from sqlalchemy import inspect, make_url, select, text

from app.core.process import LOG_NAME, finished_checkpoints
from app.core.settings import Settings, add_driver
from app.core.space import explain_full_disk
from app.db.failures import require_intact
from app.db.migration import SchemaProblem, current_revision, require_schema, schema_problem
from app.db.models import StoredFile
from app.db.session import require_database, temporary_engine
from app.db.work import FileLocks
from app.operations.health import is_listening
from app.queue import ENGINE_SCHEMA
from app.storage import open_storage
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError, UnavailableError

FILES, RUNS, SUMS = "files", "runs", "SHA256SUMS"
INSTALL_ADVICE = "Install PostgreSQL's client programs, of the server's version or newer, and put them on the PATH"
COPY_ATTEMPTS = 10  # at copying the checkpoints of a run, which may change while it trains
SESSION_END_SECONDS = 2.0  # for which PostgreSQL may still list a session that was closed


class Backup(NamedTuple):
    """A finished backup. ``missing`` and ``damaged`` are hashes of stored files that are not in it."""

    folder: Path
    revision: str | None
    files: int
    size_bytes: int
    missing: list[str]
    damaged: list[str]
    restarting_runs: list[str]  # ids of runs whose checkpoints changed too fast to be copied


def make_backup(settings: Settings, folder: Path) -> Backup:
    """Write a backup into a new subfolder named by the current time. It appears only when complete.

    Checkpoints are copied first, so that none is newer than the rows; then the job engine's database, so that a job
    that ends during the backup at worst runs again. Raises ConflictError if a database or the folder cannot be used.
    """
    databases = _list_databases(settings)
    require_database(settings.database, "ISOSCOPE_DATABASE_URL")
    require_schema(settings.database)
    name = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S.%fZ}"
    temporary_folder = folder / f".unfinished-{name}"
    with explain_full_disk(folder):
        try:
            temporary_folder.mkdir(parents=True)
        except OSError as error:
            raise ConflictError(f"{folder} cannot be written to: {error.strerror}.") from error
        try:
            backup = _write_backup(settings, databases, temporary_folder)
            os.sync()
            temporary_folder.rename(folder / name)
        finally:
            shutil.rmtree(temporary_folder, ignore_errors=True)
    return backup._replace(folder=folder / name)


def _write_backup(settings: Settings, databases: dict[str, str], folder: Path) -> Backup:
    (folder / RUNS).mkdir()
    (folder / FILES).mkdir()
    runs = sorted(path for path in settings.runs.iterdir() if path.is_dir())
    restarting = [run.name for run in runs if not _copy_checkpoints(run, folder / RUNS / run.name)]
    for copy_name, url in databases.items():
        if url.startswith("sqlite"):
            copy_sqlite(_sqlite_path(url), folder / copy_name)
        else:
            options = ["--format=custom", "--no-owner", "--no-privileges", f"--file={folder / copy_name}"]
            _run_program("pg_dump", url, options)
    with temporary_engine(settings.database) as engine, engine.connect() as connection:
        hashes = connection.scalars(select(StoredFile.sha256)).all()
        revision = current_revision(engine)
    storage, missing = open_storage(settings), []
    for sha256 in hashes:
        try:
            shutil.copyfile(storage.local_path(sha256), folder / FILES / sha256)
        except (NotFoundError, FileNotFoundError):
            missing.append(sha256)
    checksums = {path: _hash_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    damaged = [path for path, sha256 in checksums.items() if path.parent == folder / FILES and path.name != sha256]
    for path in damaged:
        path.unlink()
        del checksums[path]
    (folder / SUMS).write_text("".join(f"{sha256}  {path.relative_to(folder)}\n" for path, sha256 in checksums.items()))
    size_bytes = sum(path.stat().st_size for path in checksums)
    return Backup(folder, revision, len(checksums), size_bytes, missing, [path.name for path in damaged], restarting)


def _copy_checkpoints(run: Path, target: Path) -> bool:
    """Copy a consistent state of a run's checkpoints, best weights and log. Return False if they changed too fast."""
    for _ in range(COPY_ATTEMPTS):
        checkpoints = finished_checkpoints(run)
        with suppress(FileNotFoundError, shutil.Error):
            target.mkdir()
            for checkpoint in checkpoints:
                shutil.copytree(checkpoint, target / checkpoint.name)
            for path in filter(Path.is_file, (*run.glob("best-*.safetensors"), run / LOG_NAME)):
                shutil.copy2(path, target / path.name)
            # Best weights are removed only after a newer checkpoint is complete, so they match if none was added.
            if finished_checkpoints(run) == checkpoints:
                return True
        shutil.rmtree(target, ignore_errors=True)
    return not run.exists()  # nothing to copy if the run was deleted


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a snapshot of a SQLite database without blocking writers. Raise ConflictError if it is damaged."""
    require_intact(f"sqlite:///{source}")
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))


def restore_backup(settings: Settings, folder: Path) -> tuple[Path, SchemaProblem | None]:
    """Restore a backup, or the newest backup in a folder, into an empty installation.

    Returns the backup's folder, and any problem to fix before this version can use it. A failure leaves nothing behind.
    """
    backups = [folder] if (folder / SUMS).is_file() else sorted(path.parent for path in folder.glob(f"*/{SUMS}"))
    if not backups:
        raise NotFoundError(f"There is no backup in {folder}. Name a folder that isoscope backup has written.")
    backup, databases = backups[-1], _list_databases(settings)
    copies = sorted(path.name for kind in ("sqlite", "dump") for path in backup.glob(f"*.{kind}"))
    if copies != sorted(databases):
        raise ConflictError(
            f"The backup holds {' and '.join(copies)}; the settings need {' and '.join(sorted(databases))}. "
            "Set ISOSCOPE_DATABASE_URL and ISOSCOPE_QUEUE_URL to databases of the same kind."
        )
    settings.create_folders()
    _require_empty_and_idle(settings, databases)
    hashes = _verify_checksums(backup)
    with explain_full_disk(settings.root), ExitStack() as undo:
        storage = open_storage(settings)
        for sha256 in hashes:
            if not storage.exists(sha256):
                undo.callback(storage.delete, sha256)
                with (backup / FILES / sha256).open("rb") as file:
                    storage.write(file, os.fstat(file.fileno()).st_size)
        for run in (backup / RUNS).iterdir():
            undo.callback(shutil.rmtree, settings.runs / run.name, ignore_errors=True)
            shutil.copytree(run, settings.runs / run.name)
        for copy_name, url in databases.items():
            if url.startswith("sqlite"):
                undo.callback(_sqlite_path(url).unlink, missing_ok=True)
                shutil.copyfile(backup / copy_name, _sqlite_path(url))
            else:
                options = ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error"]
                _run_program("pg_restore", url, [*options, str(backup / copy_name)])
        os.sync()
        undo.pop_all()
    with temporary_engine(settings.database) as engine:
        return backup, schema_problem(engine)


def _require_empty_and_idle(settings: Settings, databases: dict[str, str]) -> None:
    """Raise ConflictError if data exist already, or if a dashboard or a worker runs with these settings."""
    folders = [settings.runs] + ([settings.files] if settings.bucket is None else [])
    existing_data = [str(folder) for folder in folders if any(folder.iterdir())]
    running_processes = [f" at {settings.host}:{settings.port}"] if is_listening(settings) else []
    for lock in (settings.root / "locks").glob("*.lock"):
        try:
            with FileLocks(lock.parent).held(lock.stem):
                pass
        except ConflictError:
            running_processes.append(f": a worker holds {lock}")
    count_sessions = text(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
        "and backend_type = 'client backend'"
    )
    for copy_name, url in databases.items():
        if url.startswith("sqlite"):
            existing_data += [str(_sqlite_path(url))] if _sqlite_path(url).exists() else []
            continue
        require_database(url, "ISOSCOPE_DATABASE_URL")
        deadline = monotonic() + SESSION_END_SECONDS
        with temporary_engine(url) as engine, engine.connect() as connection:
            if inspect(connection).has_table("alembic_version") or inspect(connection).has_schema(ENGINE_SCHEMA):
                existing_data.append(f"tables in the {copy_name.partition('.')[0]} database")
            while (n_sessions := connection.scalar(count_sessions)) and monotonic() < deadline:
                connection.rollback()  # a transaction would see the same list of sessions again
                sleep(0.1)
        running_processes += [": others are connected to the database"] if n_sessions else []
    if running_processes:
        sentence = f"Isoscope, or something else, runs with these settings{running_processes[0]}."
        raise ConflictError(f"{sentence} Stop it, then restore again.")
    if existing_data:
        raise ConflictError(
            f"There are data already: {', '.join(existing_data)}. Name an empty data folder and database."
        )


def _verify_checksums(backup: Path) -> list[str]:
    """Return the hashes of a backup's stored files. Raise InvalidError if any file does not match its SHA-256."""
    checksums = [line.partition("  ")[::2] for line in (backup / SUMS).read_text(errors="replace").splitlines()]
    damaged_names = [
        name for sha256, name in checksums if not (backup / name).is_file() or _hash_file(backup / name) != sha256
    ]
    if damaged_names:
        raise InvalidError(
            f"{len(damaged_names)} of {len(checksums)} files in {backup} are missing or damaged: "
            f"{', '.join(damaged_names[:5])}. Nothing was restored. Use another backup."
        )
    return [sha256 for sha256, name in checksums if name.startswith(f"{FILES}/")]


def _list_databases(settings: Settings) -> dict[str, str]:
    """Return the URL of each database by the file name of its copy, the metrics database last.

    There is only one if the job engine shares it. Raises ConflictError if a program that copies PostgreSQL is missing.
    """
    urls = {"queue": add_driver(settings.queue), "metrics": settings.database}
    if urls["queue"] == urls["metrics"]:
        del urls["queue"]
    programs = () if all(url.startswith("sqlite") for url in urls.values()) else ("pg_dump", "pg_restore")
    for program in programs:
        if shutil.which(program) is None:
            raise ConflictError(f"There is no {program} here. {INSTALL_ADVICE}.")
    return {f"{name}.{'sqlite' if url.startswith('sqlite') else 'dump'}": url for name, url in urls.items()}


def _run_program(program: str, url: str, options: list[str]) -> None:
    """Run a client program of PostgreSQL on a database. Raise UnavailableError with its message if it fails."""
    parsed = make_url(url).set(drivername="postgresql")
    password = parsed.password or parsed.query.get("password")
    # Other users of the machine could read a password in the process list.
    address = parsed.set(password=None).difference_update_query(["password"]).render_as_string(hide_password=False)
    command = [program, "--no-password", f"--dbname={address}", *options]
    environment = os.environ | ({"PGPASSWORD": str(password)} if password else {})
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if process.returncode:
        reason = " ".join(process.stderr.split()) or f"it ended with {process.returncode}"
        advice = f" {INSTALL_ADVICE}." if "version mismatch" in reason or "unsupported version" in reason else ""
        raise UnavailableError(f"{program} failed: {reason.rstrip('.')}.{advice}")


def _sqlite_path(url: str) -> Path:
    return Path(str(make_url(url).database)).absolute()


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
