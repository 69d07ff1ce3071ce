"""A worker's slot: its stable name, by which rows and engine know whose a job is, and the file that it locks."""

import fcntl
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.settings import Settings
from isoscope.core.errors import ConflictError, InvalidError

MAX_CHARACTERS = 100


def slot_name(settings: Settings, device: str) -> str:
    """The same for every worker of this device on this machine, across restarts."""
    name = f"{settings.worker_name or socket.gethostname()}/{device}"
    if len(name) > MAX_CHARACTERS:
        raise InvalidError(
            f"Expected a worker's name and device of at most {MAX_CHARACTERS} characters, got {name!r}. "
            "Set ISOSCOPE_WORKER_NAME to a shorter name."
        )
    return name


class FileLocks:
    """Locked files in one folder; the kernel lets go of them."""

    settled = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold the lock of that name."""
        with (self._folder / f"{name.replace('/', '_')}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise taken(name) from None
            yield


def taken(name: str) -> ConflictError:
    """Return the error of a slot that another worker holds."""
    return ConflictError(
        f"Another worker already works as {name}. Stop it first, or give this one another --device "
        "or another ISOSCOPE_WORKER_NAME."
    )
