"""Sessions of workers and of their jobs: where PostgreSQL is away for a moment they wait for it."""

from sqlalchemy import NullPool

from app.db.session import Sessions, create_sessions
from app.settings import Settings

# Longer than a worker lives without its locks (workers.locks): a job outlasts every outage that its worker does.
PATIENCE_SECONDS = 30


def worker_sessions(settings: Settings) -> Sessions:
    """Sessions of a worker process."""
    return create_sessions(settings.database, patience=PATIENCE_SECONDS)


def job_sessions(settings: Settings) -> Sessions:
    """Sessions of a job, which takes hours and writes for moments: it keeps no connection in between."""
    return create_sessions(settings.database, patience=PATIENCE_SECONDS, poolclass=NullPool)
