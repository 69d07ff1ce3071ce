"""What takes up room: databases, stored files, run folders, the cache, copies of databases."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import func, select

from app.context import Context
from app.db.models import StoredFile
from app.settings import Settings
from app.storage.space import Disk, disks

BESIDE_SQLITE = ("", "-wal", "-shm")


class Use(NamedTuple):
    """One kind of data, where it is, and its size."""

    kind: str
    place: str
    size_bytes: int


class Space(NamedTuple):
    """The disks of this machine, and what Isoscope keeps, on them or elsewhere."""

    disks: list[Disk]
    uses: list[Use]
    reserve_bytes: int


def measure_space(context: Context) -> Space:
    """Look at every disk, and add up what is kept."""
    settings = context.settings
    return Space(disks(settings), list(_uses(context, settings)), settings.reserve_bytes)


def _uses(context: Context, settings: Settings) -> Iterator[Use]:
    with context.sessions() as session:
        stored = int(session.scalar(select(func.coalesce(func.sum(StoredFile.size_bytes), 0))) or 0)
        if session.get_bind().dialect.name == "postgresql":
            database = session.scalar(select(func.pg_database_size(func.current_database())))
            yield Use("database", "PostgreSQL", int(database or 0))
    for file in settings.sqlite_files:
        yield Use("database", str(file), _sizes(Path(f"{file}{suffix}") for suffix in BESIDE_SQLITE))
    if settings.bucket is None:
        yield Use("files", str(settings.files), stored)
    else:
        yield Use("files", f"s3://{settings.bucket}", stored)
        yield Use("cache", str(settings.cache), _sizes(_files(settings.cache)))
    yield Use("run folders", str(settings.runs), _sizes(_files(settings.runs)))
    if (copies := settings.database_copies).exists():
        yield Use("database copies", str(copies), _sizes(_files(copies)))
    if (spare := context.spare).path.exists():
        yield Use("spare file", str(spare.path), spare.size_bytes)


def _files(folder: Path) -> Iterator[Path]:
    for path, _, names in os.walk(folder):
        yield from (Path(path, name) for name in names)


def _sizes(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        with suppress(OSError):  # it is not there, or gone just now
            total += path.stat().st_size
    return total
