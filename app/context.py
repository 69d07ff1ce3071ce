"""What every service needs, made once at start and passed down."""

from dataclasses import dataclass

from app.db.session import Sessions
from app.queue import JobQueue
from app.settings import Settings
from app.storage import Storage
from app.storage.ledger import Ledger


@dataclass(frozen=True)
class Context:
    """The open ends of the process: its settings, database, files and job queue."""

    settings: Settings
    sessions: Sessions
    storage: Storage
    queue: JobQueue

    @property
    def ledger(self) -> Ledger:
        """The files with their rows."""
        return Ledger(self.sessions, self.storage)

    def close(self) -> None:
        """Close the connections."""
        self.queue.close()
        self.sessions.kw["bind"].dispose()
