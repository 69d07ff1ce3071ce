"""``isoscope migrate``: create both databases, or upgrade them to the schema of this version."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from app import queue
from app.core.settings import Settings
from app.core.space import explain_full_disk
from app.db.migration import current_revision, known_revisions, try_insert, upgrade
from app.db.session import driver_message, redacted, require_database, temporary_engine
from app.operations.backup import copy_sqlite
from isoscope.core.errors import ConflictError

MIGRATIONS_KEPT = 3

logger = logging.getLogger(__name__)


def migrate(settings: Settings) -> None:
    """Create the data folder, and create or upgrade the metrics database and the job engine's.

    SQLite databases are copied before existing tables are upgraded. Raises ConflictError if a database does not answer,
    cannot be written, or was made by a newer version of Isoscope; FullDiskError if there is no room for the copies.
    """
    settings.create_folders()
    require_database(settings.database, "ISOSCOPE_DATABASE_URL")
    require_database(settings.queue, "ISOSCOPE_QUEUE_URL")
    with temporary_engine(settings.database) as engine:
        current, revisions = current_revision(engine), known_revisions()
        if current in revisions[1:]:
            with explain_full_disk(settings.database_copies):
                _copy_databases(settings, f"{current}-to-{revisions[0]}")
        upgrade(engine)
        with require_writing(settings.database, "ISOSCOPE_DATABASE_URL"):
            try_insert(engine)
    queue.migrate(settings.queue)
    with closing(queue.JobQueue(settings.queue)) as jobs, require_writing(settings.queue, "ISOSCOPE_QUEUE_URL"):
        jobs.try_insert()


@contextmanager
def require_writing(url: str, setting: str) -> Iterator[None]:
    """Raise ConflictError if the context fails to write to a database."""
    try:
        yield
    except SQLAlchemyError as error:
        raise ConflictError(
            f"The database {redacted(make_url(url))} can be read but not written: {driver_message(error)}. "
            f"Check that its user may write to it and that its disk has free space, or change {setting}."
        ) from error


def _copy_databases(settings: Settings, name: str) -> None:
    """Copy the SQLite files, with ``name`` in the names of the copies. Keep those of the last migrations only."""
    databases = [file for file in settings.sqlite_files if file.exists()]
    if not databases:
        return
    folder = settings.database_copies
    folder.mkdir(exist_ok=True)
    made_at = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}"
    for file in databases:
        copy = folder / f"{made_at}-{name}-{file.name}"
        copy_sqlite(file, copy)
        logger.info("the database is copied to %s before it is migrated", copy)
    copies_by_time: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        copies_by_time.setdefault(path.name.split("Z-", 1)[0], []).append(path)
    for timestamp in list(copies_by_time)[:-MIGRATIONS_KEPT]:
        for path in copies_by_time[timestamp]:
            path.unlink()
