import os
import time
from collections.abc import Callable

from app.core.process import machine_cores


def patience() -> float:
    """Return how much slower everything is on a machine that others keep busy."""
    return max(1.0, os.getloadavg()[0] / machine_cores())


def wait_for(look: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds * patience()
    while not look():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)
