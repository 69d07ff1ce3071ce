"""Limit how long idle threads spin."""

import os

SPINS = 10_000


def limit_thread_spinning() -> None:
    """Make idle threads spin for microseconds before they sleep; call this before importing torch.

    By default libgomp threads spin for milliseconds. When two jobs share cores, the spinning threads of each keep
    those of the other from running: two reports at once took eight times as long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
