"""What every service needs, made once at start and passed down."""

from dataclasses import dataclass

from app.db.session import Sessions
from app.queue import JobQueue
from app.settings import Settings
from app.storage import Storage
from app.storage.ledger import Ledger
from app.storage.space import Spare, require_room


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

    @property
    def spare(self) -> Spare:
        """The file that is freed so that something can be deleted from a full disk."""
        return Spare.of(self.settings)

    def require_room(self, staying: int = 0) -> None:
        """Refuse what makes new data where less than the reserve would be left on a disk."""
        require_room(self.settings, staying=staying)
        self.spare.make()

    def close(self) -> None:
        """Close the connections."""
        self.queue.close()
        self.sessions.kw["bind"].dispose()
