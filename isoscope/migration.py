"""``isoscope migrate``: both databases made, or brought to what this version needs."""

from app import queue
from app.db.migration import upgrade
from app.db.session import create_database_engine
from app.settings import Settings


def migrate(settings: Settings) -> None:
    """Create the data folder, and create or upgrade the metrics database and the job engine's."""
    settings.create_folders()
    engine = create_database_engine(settings.database)
    try:
        upgrade(engine)
    finally:
        engine.dispose()
    queue.migrate(settings.queue)
