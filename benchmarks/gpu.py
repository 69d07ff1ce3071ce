"""Print how fast fine-tunes are on a GPU: a step with each regularizer, a whole run, and runs side by side.

It takes at most eight minutes: a part that is not done by then is ended.

Run: ISOSCOPE_BENCH_DATA=FOLDER python -m benchmarks.gpu, with rte/train.tsv and rte/validation.tsv
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

MAX_SECONDS = 480
PARTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("regularizers", {"BATCH": "32", "ROUNDS": "5"}),
    ("regularizers", {"BATCH": "8", "ROUNDS": "5"}),
    ("whole_run", {"ROUNDS": "3"}),
    ("side_by_side", {}),
)


def main() -> None:
    """Run each benchmark in a process of its own, so that a failure of one leaves the figures of the others."""
    failures, deadline = 0, time.monotonic() + MAX_SECONDS
    for name, variables in PARTS:
        print(f"\n## {name} {' '.join(f'{key}={value}' for key, value in variables.items())}\n", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        # A group of its own, so that the dashboard of a part ends with it.
        with subprocess.Popen(command, env=os.environ | variables, start_new_session=True) as process:
            try:
                failures += process.wait(deadline - time.monotonic()) != 0
            except subprocess.TimeoutExpired:
                print(f"Ended: all parts together may take {MAX_SECONDS} seconds.", flush=True)
                failures += 1
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    raise SystemExit(failures)


if __name__ == "__main__":
    main()
