import os
import time
from collections.abc import Callable

from app.core.process import machine_cores


def patience() -> float:
    """Return the slowdown of a busy machine, at least 1."""
    return max(1.0, os.getloadavg()[0] / machine_cores())


def wait_for(is_met: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds * patience()
    while not is_met():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)
