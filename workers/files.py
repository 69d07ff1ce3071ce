"""The files of rows, brought to this machine."""

import logging
import time
from pathlib import Path

from app.errors import NotFoundError, UnavailableError
from app.settings import Settings
from app.storage import open_storage

logger = logging.getLogger(__name__)

# Between attempts: a storage that restarts is back within minutes, and no other job could go on without it either.
WAITS_SECONDS = (1, 5, 20, 60, 120)


def fetch(sha256: str, what: str, settings: Settings) -> Path:
    """Return where a file, ``what`` to the user, can be read here; wait minutes for a storage out of reach."""
    storage = open_storage(settings)
    try:
        for seconds in WAITS_SECONDS:
            try:
                return storage.local(sha256)
            except UnavailableError:
                logger.warning("The file %s cannot be had; trying again in %s s.", what, seconds)
                time.sleep(seconds)
        return storage.local(sha256)
    except NotFoundError as error:
        raise NotFoundError(f"The file {what} is gone from the storage; upload it again.") from error
