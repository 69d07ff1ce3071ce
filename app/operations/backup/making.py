"""Make a backup of a dashboard, which may run meanwhile."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from alembic.runtime.migration import MigrationContext
from sqlalchemy import select

from app import VERSION
from app.core.process import LOG, finished_checkpoints
from app.core.settings import Settings
from app.core.space import explaining_full
from app.db.migration import require_schema
from app.db.models import StoredFile
from app.db.session import require_database
from app.operations.backup.databases import Database, databases_of, require_programs
from app.operations.backup.manifest import FILES, MANIFEST, RUNS, Entry, Manifest, entry_of, find_backup
from app.storage import Storage, open_storage
from app.storage.storage import BLOCK_BYTES
from isoscope.core.errors import ConflictError, NotFoundError

TRIES = 10
"""To copy the folder of a run that trains meanwhile."""
NAME = "%Y-%m-%dT%H-%M-%S.%fZ"


class Made(NamedTuple):
    """A backup that is whole."""

    folder: Path
    manifest: Manifest
    unsettled: list[str]
    """Runs without checkpoints in it: theirs changed too fast, so that they start afresh after a restore."""


def make_backup(settings: Settings, folder: Path) -> Made:
    """Write a backup into a new subfolder, named by the time; it appears when it is whole.

    Checkpoints go first: the rows may be ahead of them, never behind. Then the job engine's database and the metrics
    database, and last the stored files that its copy names, which never change; those that the backup before has
    already are hard links to it.

    Raises:
        ConflictError: a database does not answer, its tables are of another version, or pg_dump is not here.
        FullDiskError: there is no room in the folder.

    """
    databases = databases_of(settings)
    require_programs(databases)
    require_database(settings.database, "ISOSCOPE_DATABASE_URL")
    require_schema(settings.database)
    now = datetime.now(UTC)
    with explaining_full(folder):
        try:
            unfinished = folder / f".unfinished-{now.strftime(NAME)}"
            unfinished.mkdir(parents=True)
        except OSError as error:
            raise ConflictError(f"{folder} cannot be written to: {error.strerror}.") from error
        try:
            made = _write(settings, databases, unfinished, _former(folder), now)
            os.sync()
            whole = folder / now.strftime(NAME)
            unfinished.rename(whole)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return made._replace(folder=whole)


def _write(settings: Settings, databases: list[Database], backup: Path, former: Path | None, now: datetime) -> Made:
    *engines, metrics = databases
    unsettled = copy_run_folders(settings.runs, backup / RUNS)
    copies = []
    for database in engines:
        with database.copied(backup) as (copy, _):
            copies.append(copy)
    with metrics.copied(backup) as (copy, connection):
        copies.append(copy)
        hashes = connection.scalars(select(StoredFile.sha256).order_by(StoredFile.sha256)).all()
        revision = MigrationContext.configure(connection).get_current_revision()
    files, missing, damaged = _keep_files(open_storage(settings), hashes, backup, former)
    manifest = Manifest(
        isoscope=VERSION,
        created_at=now,
        schema_revision=str(revision),
        metrics_engine=metrics.engine,
        queue_engine=engines[0].engine if engines else None,
        databases=[entry_of(backup, copy) for copy in copies],
        runs=[entry_of(backup, path) for path in sorted((backup / RUNS).rglob("*")) if path.is_file()],
        files=files,
        missing=missing,
        damaged=damaged,
    )
    (backup / MANIFEST).write_text(manifest.model_dump_json(indent=1))
    return Made(backup, manifest, unsettled)


def _former(folder: Path) -> Path | None:
    with suppress(NotFoundError):
        return find_backup(folder) / FILES
    return None


def _keep_files(
    storage: Storage, hashes: Iterable[str], backup: Path, former: Path | None
) -> tuple[list[Entry], list[str], list[str]]:
    kept: list[Entry] = []
    missing, damaged = [], []
    (backup / FILES).mkdir()
    for sha256 in hashes:
        target = backup / FILES / sha256
        try:
            found = _link(former / sha256, target) if former is not None else None
            size_bytes, really = found or _copy(storage.local(sha256), target)
        except (NotFoundError, FileNotFoundError):
            missing.append(sha256)
            continue
        if really not in (None, sha256):
            damaged.append(sha256)
            target.unlink()
            continue
        kept.append(Entry(path=f"{FILES}/{sha256}", size_bytes=size_bytes, sha256=sha256))
    return kept, missing, damaged


def _link(former: Path, target: Path) -> tuple[int, None] | None:
    """Share a file with the backup before; None where it has none, or hard links cannot be made here."""
    try:
        os.link(former, target)
    except OSError:
        return None
    return target.stat().st_size, None


def _copy(source: Path, target: Path) -> tuple[int, str]:
    digest, size_bytes = hashlib.sha256(), 0
    with source.open("rb") as reading, target.open("wb") as writing:
        while block := reading.read(BLOCK_BYTES):
            digest.update(block)
            size_bytes += len(block)
            writing.write(block)
    return size_bytes, digest.hexdigest()


def copy_run_folders(source: Path, target: Path) -> list[str]:
    """Copy what a run needs to go on: its checkpoints that count, the best weights, its log.

    Returns the names of the folders that changed under every try; their runs start afresh where there is no copy.
    """
    target.mkdir(parents=True)
    return [
        folder.name
        for folder in sorted(source.iterdir())
        if folder.is_dir() and not any(_copied(folder, target / folder.name) for _ in range(TRIES))
    ]


def _copied(folder: Path, target: Path) -> bool:
    """Whether the copy is of one state: a checkpoint is complete before an older one and its best weights go."""
    shutil.rmtree(target, ignore_errors=True)
    before = finished_checkpoints(folder)
    try:
        target.mkdir()
        for checkpoint in before:
            shutil.copytree(checkpoint, target / checkpoint.name)
        for path in (*folder.glob("best-*.safetensors"), folder / LOG):
            if path.is_file():
                shutil.copy2(path, target / path.name)
    except (FileNotFoundError, shutil.Error):
        return _gone(folder, target)
    if finished_checkpoints(folder) == before:
        return True
    return _gone(folder, target)


def _gone(folder: Path, target: Path) -> bool:
    """Forget a copy that is no good; whether there is nothing to copy any more."""
    shutil.rmtree(target, ignore_errors=True)
    return not folder.exists()
