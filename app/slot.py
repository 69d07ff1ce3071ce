"""A worker's slot: its stable name, by which rows and engine know whose a job is."""

import socket

from app.settings import Settings
from isoscope.core.errors import InvalidError

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
