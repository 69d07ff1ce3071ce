"""How the threads of one product wait for each other."""

import os

SPINS = 10_000


def wait_briefly() -> None:
    """Let a thread that waits for the others look some microseconds long, then sleep; to be called before torch comes.

    By default libgomp looks for milliseconds. That helps nobody, and where two jobs share the cores, each spends its time
    waiting for threads that the other keeps from running: two reports at once took eight times as long as with this.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
