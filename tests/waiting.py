import time
from collections.abc import Callable


def wait_for(look: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)
