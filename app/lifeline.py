"""End a process when the one that started it is gone, however that one ended."""

import os
import signal
import sys
from threading import Thread

FLAG = "--lifeline"


def hold_lifeline() -> None:
    """Take standard input for a pipe from the parent, and stop this process when it closes.

    A killed parent closes its pipes too, so nothing is left behind that would hold ports and locks.
    """

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="lifeline", daemon=True).start()
