"""``isoscope migrate``: both databases made, or brought to what this version needs."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from app import queue
from app.db.migration import try_insert, upgrade
from app.db.session import cause, create_database_engine, require_database, shown
from app.errors import ConflictError
from app.settings import Settings


def migrate(settings: Settings) -> None:
    """Create the data folder, and create or upgrade the metrics database and the job engine's.

    Raises ConflictError where a database does not answer, or takes no row.
    """
    settings.create_folders()
    require_database(settings.database, "ISOSCOPE_DATABASE_URL")
    require_database(settings.queue, "ISOSCOPE_QUEUE_URL")
    engine = create_database_engine(settings.database)
    try:
        upgrade(engine)
        with _writing(settings.database, "ISOSCOPE_DATABASE_URL"):
            try_insert(engine)
    finally:
        engine.dispose()
    queue.migrate(settings.queue)
    jobs = queue.JobQueue(settings.queue)
    try:
        with _writing(settings.queue, "ISOSCOPE_QUEUE_URL"):
            jobs.try_insert()
    finally:
        jobs.close()


@contextmanager
def _writing(url: str, setting: str) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        raise ConflictError(
            f"The database {shown(make_url(url))} can be read but not written: {cause(error)}. Check that its user may "
            f"write to it and that its disk has free space, or change {setting}."
        ) from error
