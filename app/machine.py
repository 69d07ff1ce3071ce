"""What this machine has, as the system tells of it: its memory and its cores, or what its container may have."""

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine_memory() -> int | None:
    """Return bytes of memory of this machine, or as many as its container may have; None where it does not tell."""
    limits = [kibibytes(PROC / "meminfo", "MemTotal")]
    with suppress(OSError, ValueError):  # not in a container, or one without a limit, which says "max"
        limits.append(int(CONTAINER.read_text()))
    return min((limit for limit in limits if limit is not None), default=None)


def machine_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def kibibytes(path: Path, name: str) -> int | None:
    """Return a number of bytes that a file of the system gives in KiB under a name."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None
