"""What every process that a worker starts shares: the format of its log, and that it ends with its parent."""

import os
from multiprocessing import parent_process
from threading import Thread

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def die_with_parent() -> None:
    """End this process when the one that asked for it ends, however that ends."""
    Thread(target=_wait_for_parent, name="lifeline", daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
