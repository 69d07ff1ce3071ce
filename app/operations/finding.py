"""What one look of ``isoscope doctor`` came to."""

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad it is: nothing to do, worth knowing, or something that does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """What was looked at, what was found, and what to do about it."""

    check: str
    level: Level
    found: str
    advice: str = ""

    def __str__(self) -> str:
        """One line for a terminal."""
        return f"{self.level:<8} {self.check}: {self.found} {self.advice}".rstrip()


def ok(check: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Level.OK, found)


def warning(check: str, found: str, advice: str) -> Finding:
    """Works, and is worth a look."""
    return Finding(check, Level.WARNING, found, advice)


def problem(check: str, found: str, advice: str) -> Finding:
    """Does not work until something is done."""
    return Finding(check, Level.PROBLEM, found, advice)
