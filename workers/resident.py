"""Memory of a job's processes as the system tells of it, without a library."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app.machine import PROC, kibibytes


class Memory(NamedTuple):
    """Bytes that processes hold now, and at most so far; None where the system does not tell."""

    now: int | None
    peak: int | None


def group_memory(group: int) -> Memory:
    """What the processes of a group hold, each with its own peak."""
    members = list(_members(group))
    now = [kibibytes(member / "status", "VmRSS") for member in members]
    peak = [kibibytes(member / "status", "VmHWM") for member in members]
    return Memory(_sum(now), _sum(peak))


def _members(group: int) -> Iterator[Path]:
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            # The name of a program may hold blanks and parentheses; behind it are state, parent, group.
            if int((process / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                yield process


def _sum(found: list[int | None]) -> int | None:
    told = [one for one in found if one is not None]
    return sum(told) if told else None
