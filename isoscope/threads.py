"""How the threads of one product wait for each other."""

import os

SPINS = 10_000


def wait_briefly() -> None:
    """Let a thread that waits for others look for microseconds, then sleep; to be called before torch is imported.

    By default libgomp looks for milliseconds. That helps nobody, and where two jobs share the cores, each spends its
    time waiting for threads that the other keeps from running: two reports at once took eight times as long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
