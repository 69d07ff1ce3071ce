"""A worker's slot: its stable name, held by a lock so that no two workers carry it."""

import fcntl
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import ConflictError


def slot_name(device: str) -> str:
    """The same for every worker of this device on this machine, across restarts."""
    return f"{socket.gethostname()}/{device}"


@contextmanager
def held(name: str, locks: Path) -> Iterator[None]:
    """Hold the lock of that name. The kernel lets go of it when the process ends, however it ends.

    Raises ConflictError where another worker holds it.
    """
    with (locks / f"{name.replace('/', '_')}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(
                f"Another worker already works as {name} on this data folder. "
                "Stop it first, or give this one another --device."
            ) from None
        yield
