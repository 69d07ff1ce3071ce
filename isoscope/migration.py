"""``isoscope migrate``: both databases made, or brought to what this version needs."""

from app import queue
from app.db.migration import upgrade
from app.db.session import create_database_engine, require_database
from app.settings import Settings


def migrate(settings: Settings) -> None:
    """Create the data folder, and create or upgrade the metrics database and the job engine's.

    Raises ConflictError where a database does not answer.
    """
    settings.create_folders()
    require_database(settings.database, "ISOSCOPE_DATABASE_URL")
    require_database(settings.queue, "ISOSCOPE_QUEUE_URL")
    engine = create_database_engine(settings.database)
    try:
        upgrade(engine)
    finally:
        engine.dispose()
    queue.migrate(settings.queue)
