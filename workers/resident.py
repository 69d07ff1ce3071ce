"""Memory as the system tells of it, without a library: of this machine, and of a job's processes."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
CONTAINER = Path("/sys/fs/cgroup/memory.max")


class Memory(NamedTuple):
    """Bytes that processes hold now, and at most so far; None where the system does not tell."""

    now: int | None
    peak: int | None


def machine_memory() -> int | None:
    """Bytes of memory of this machine, or as many as its container may have."""
    limits = [_kibibytes(PROC / "meminfo", "MemTotal")]
    with suppress(OSError, ValueError):  # not in a container, or one without a limit, which says "max"
        limits.append(int(CONTAINER.read_text()))
    return min((limit for limit in limits if limit is not None), default=None)


def group_memory(group: int) -> Memory:
    """What the processes of a group hold, each with its own peak."""
    members = list(_members(group))
    now = [_kibibytes(member / "status", "VmRSS") for member in members]
    peak = [_kibibytes(member / "status", "VmHWM") for member in members]
    return Memory(_sum(now), _sum(peak))


def _members(group: int) -> Iterator[Path]:
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            # The name of a program may hold blanks and parentheses; behind it are state, parent, group.
            if int((process / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                yield process


def _kibibytes(path: Path, name: str) -> int | None:
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _sum(found: list[int | None]) -> int | None:
    told = [one for one in found if one is not None]
    return sum(told) if told else None
