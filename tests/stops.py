"""Processes that wait for SIGTERM like the workers, stopped at random moments."""

import os
import random
import select
import signal
import subprocess
import sys
import time

# Each stop needs a new process, because signal handlers belong to one. Forks are fast.
WAITING = """
import os, sys
from app.core.process import StopSignals
for _ in range(int(sys.argv[1])):
    if (child := os.fork()) == 0:
        stop = StopSignals()
        os.write(1, b"%d\\n" % os.getpid())
        while not stop.wait(0.0005):
            pass
        os._exit(0)
    os.waitpid(child, 0)
"""
LIMIT_SECONDS = 20.0


def stop_bare_processes(n_stops: int) -> float:
    """Stop ``n_stops`` processes one by one; return the seconds of the slowest stop."""
    generator, slowest = random.Random(0), 0.0
    command = [sys.executable, "-c", WAITING, str(n_stops)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        stopped_at = 0.0
        for number in range(n_stops + 1):
            ready, _, _ = select.select([process.stdout], [], [], LIMIT_SECONDS)
            if not ready:
                process.kill()
            assert ready, f"stop {number} hangs"
            if stopped_at:
                slowest = max(slowest, time.monotonic() - stopped_at)
            if not (line := process.stdout.readline()):
                break  # all have ended
            time.sleep(generator.uniform(0, 0.002))
            stopped_at = time.monotonic()
            os.kill(int(line), signal.SIGTERM)
        assert (number, process.wait(LIMIT_SECONDS)) == (n_stops, 0)
    return slowest
