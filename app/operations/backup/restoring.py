"""Restore a backup: verified first, then everything or nothing."""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from app.core.settings import SQLITE_SUFFIXES, Settings
from app.core.space import explaining_full
from app.db.migration import INSTALL_NEWER, known_revisions
from app.db.session import require_database
from app.db.work import FileLocks
from app.operations.backup.databases import (
    Database,
    databases_of,
    load,
    others_connected,
    require_programs,
    tables_in,
)
from app.operations.backup.manifest import FILES, RUNS, Manifest, find_backup, read_manifest, verify
from app.storage import open_storage
from isoscope.core.errors import ConflictError

UNFINISHED = ".restoring"


class Restored(NamedTuple):
    """A backup that is in place."""

    backup: Path
    manifest: Manifest
    replaced: Path | None
    """Where SQLite files and run folders lie that were here before."""
    is_older: bool
    """Whether its tables have to be migrated."""


def restore_backup(settings: Settings, folder: Path, *, replace: bool) -> Restored:
    """Put the backup in a folder, or the newest one in it, in the place of what the settings name.

    Raises:
        NotFoundError: there is no backup.
        InvalidError: a file of it is missing or damaged.
        ConflictError: a dashboard runs there, there are data and ``replace`` was not said, or the backup is of another
            kind of database or of a newer version.

    """
    backup = find_backup(folder)
    manifest = read_manifest(backup)
    databases = databases_of(settings)
    newest, *older = known_revisions()
    if manifest.schema_revision not in (newest, *older):
        raise ConflictError(
            f"{backup} is at schema revision {manifest.schema_revision}, which this version does not know; its newest "
            f"is {newest}. {INSTALL_NEWER}"
        )
    _require_same_kind(manifest, databases)
    require_programs(databases)
    settings.create_folders()
    _require_nobody(settings, databases)
    there = _what_is_there(settings, databases)
    if there and not replace:
        raise ConflictError(
            f"There are data already: {', '.join(there)}. Name an empty data folder and database, or add --replace."
        )
    verify(backup, manifest)
    replaced = settings.root / f"replaced-{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}" if there else None
    with explaining_full(settings.root):
        _Restoring(settings, databases, backup, manifest, replaced).run()
    kept = replaced if replaced is not None and replaced.exists() else None
    return Restored(backup, manifest, kept, manifest.schema_revision != newest)


class _Restoring:
    """One restore; whatever breaks it off, what it has done is undone."""

    def __init__(
        self, settings: Settings, databases: list[Database], backup: Path, manifest: Manifest, replaced: Path | None
    ) -> None:
        self._settings = settings
        self._databases = databases
        self._backup = backup
        self._manifest = manifest
        self._replaced = replaced
        self._undo = ExitStack()

    def run(self) -> None:
        """Write everything beside its place, then move it there."""
        with self._undo:
            self._add_files()
            runs = self._settings.runs.with_name(f"{RUNS}{UNFINISHED}")
            self._copy(self._backup / RUNS, runs)
            for database in self._databases:
                if database.engine == "sqlite":
                    self._copy(self._backup / database.filename, _beside(database.file))
            os.sync()
            for database in self._databases:
                if database.engine == "postgresql":
                    load(database, self._backup / database.filename)
            self._move(runs, self._settings.runs)
            for database in self._databases:
                if database.engine == "sqlite":
                    for suffix in SQLITE_SUFFIXES[1:]:
                        self._put_aside(Path(f"{database.file}{suffix}"))
                    self._move(_beside(database.file), database.file)
            self._undo.pop_all()

    def _add_files(self) -> None:
        storage = open_storage(self._settings)
        for entry in self._manifest.files:
            if not storage.exists(entry.sha256):
                self._undo.callback(storage.delete, entry.sha256)
                with (self._backup / FILES / entry.sha256).open("rb") as file:
                    storage.write(file, entry.size_bytes)

    def _copy(self, source: Path, target: Path) -> None:
        """Copy a file or a folder; what a killed restore left there goes."""
        _remove(target)
        self._undo.callback(_remove, target)
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.exists():
            shutil.copyfile(source, target)
        else:
            target.mkdir()  # a backup without a run folder

    def _move(self, source: Path, target: Path) -> None:
        self._put_aside(target)
        source.rename(target)
        self._undo.callback(_moving(target, source))

    def _put_aside(self, path: Path) -> None:
        if not path.exists():
            return
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
            self._undo.callback(path.mkdir)
            return
        assert self._replaced is not None, path  # noqa: S101 - else it was refused
        self._replaced.mkdir(exist_ok=True)
        aside = self._replaced / path.name
        path.rename(aside)
        self._undo.callback(_moving(aside, path))


def _require_same_kind(manifest: Manifest, databases: list[Database]) -> None:
    here = (databases[-1].engine, databases[0].engine if len(databases) > 1 else None)
    if (manifest.metrics_engine, manifest.queue_engine) != here:
        raise ConflictError(
            f"The backup is of {_kinds(manifest.metrics_engine, manifest.queue_engine)}; the settings name "
            f"{_kinds(*here)}. Set ISOSCOPE_DATABASE_URL and ISOSCOPE_QUEUE_URL to databases of the same kind."
        )


def _kinds(metrics: str, queue: str | None) -> str:
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    return f"one {names[metrics]} database" if queue is None else f"{names[metrics]} with {names[queue]} for jobs"


def _require_nobody(settings: Settings, databases: list[Database]) -> None:
    """Refuse to restore under a dashboard or worker that runs."""
    from app.operations.serve import answers  # noqa: PLC0415 - it imports the whole web application

    running = "Isoscope, or something else, runs with these settings{}. Stop it, then restore again."
    if answers(settings):
        raise ConflictError(running.format(f" at {settings.host}:{settings.port}"))
    locks = FileLocks(settings.root / "locks")
    for lock in (settings.root / "locks").glob("*.lock"):
        try:
            with locks.held(lock.stem):
                pass
        except ConflictError as error:
            raise ConflictError(running.format(f": a worker holds {lock}")) from error
    for database in databases:
        if database.engine == "postgresql":
            require_database(settings.database, "ISOSCOPE_DATABASE_URL")
            if others_connected(database):
                raise ConflictError(running.format(": others are connected to the database"))


def _what_is_there(settings: Settings, databases: list[Database]) -> list[str]:
    there = [str(one.file) for one in databases if one.engine == "sqlite" and one.file.exists()]
    there += [f"tables in the {one.name} database" for one in databases if one.engine != "sqlite" and tables_in(one)]
    there += [str(settings.runs)] if any(settings.runs.iterdir()) else []
    there += [str(settings.files)] if settings.bucket is None and any(settings.files.iterdir()) else []
    return there


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}{UNFINISHED}")


def _moving(source: Path, target: Path) -> Callable[[], object]:
    return lambda: source.rename(target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
