"""SQLite's files after an end that nobody intended, such as a power cut: looked through before anything is written."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import NullPool, make_url
from sqlalchemy.exc import DatabaseError

from app.db.session import cause, create_database_engine, shown
from isoscope.core.errors import ConflictError

logger = logging.getLogger(__name__)


@contextmanager
def checked_after_a_crash(mark: Path, *urls: str) -> Iterator[None]:
    """Keep a mark while the context is open; where one was left, look through the databases first.

    Raises ConflictError where one is damaged. An end by an exception leaves the mark.
    """
    if mark.exists():
        logger.warning("The last end was not an orderly one: checking the databases.")
        for url in urls:
            require_intact(url)
    mark.touch()
    yield
    mark.unlink(missing_ok=True)


def require_intact(url: str) -> None:
    """Raise ConflictError where a file of SQLite is damaged; one that is not there, or is no file, is fine."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or not Path(parsed.database).exists():
        return
    engine = create_database_engine(url, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check(3)").scalars().all()
    except DatabaseError as error:
        found = [cause(error)]
    finally:
        engine.dispose()
    if found != ["ok"]:
        raise ConflictError(
            f"The database {shown(parsed)} is damaged: {'; '.join(' '.join(one.split()) for one in found)}. "
            "Restore it from a backup."
        )
