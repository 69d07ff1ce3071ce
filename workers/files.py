"""The files of rows, brought to this machine, and files that were made here, brought to the storage."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from app.settings import Settings
from app.storage import Stored, open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import NotFoundError, UnavailableError

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


Keep = Callable[[Callable[[], BinaryIO]], Stored]
"""Stores a file that is made anew for each attempt."""


@contextmanager
def keeping(ledger: Ledger) -> Iterator[Keep]:
    """Store files one after the other, to be recorded before the end; those that no row needs then are let go.

    Each waits minutes for a storage out of reach. There is no limit to their size: they were made of what is stored
    already. What a kill leaves behind is removed a day later (``Ledger.sweep``).
    """
    stored: list[Stored] = []

    def keep(make: Callable[[], BinaryIO]) -> Stored:
        stored.append(_patiently(make, ledger))
        return stored[-1]

    try:
        yield keep
    finally:
        ledger.release(*(one.sha256 for one in stored))


def _patiently(make: Callable[[], BinaryIO], ledger: Ledger) -> Stored:
    for seconds in WAITS_SECONDS:
        try:
            return ledger.store(make(), sys.maxsize)
        except UnavailableError:
            logger.warning("A file that was made cannot be stored; trying again in %s s.", seconds)
            time.sleep(seconds)
    return ledger.store(make(), sys.maxsize)
