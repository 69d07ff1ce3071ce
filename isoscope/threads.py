"""How the threads of one product wait for each other."""

import os

SPINS = 10_000


def wait_briefly() -> None:
    """Let waiting threads spin for microseconds, then sleep; call before torch is imported.

    By default libgomp spins for milliseconds: with two jobs on the same cores each spends its time waiting for threads
    that the other keeps from running. Two reports at once took eight times as long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
