"""Words of figures: what the numbers of runs are of, and names as a plot has room for them."""

import re
from collections.abc import Sequence

from app.db.models import Run
from isoscope.core.formatting import plural
from isoscope.core.task import TaskKind


def texts(runs: Sequence[Run], n: int | None = None) -> str:
    """What the runs read, and how many of them: validation rows; 1,204 windows of validation rows."""
    spans = any(run.config.task is TaskKind.SPAN for run in runs)
    noun, nouns = (
        ("window of validation rows", "windows of validation rows") if spans else ("validation row", "validation rows")
    )
    return nouns if n is None else plural(n, noun, nouns)


def to_come(runs: Sequence[Run], coming: str, never: str) -> str:
    """What stands in place of a figure without data: what is to come, or once all runs have ended, what never was."""
    return never if all(run.status.final for run in runs) else coming


def by_scripts(runs: Sequence[Run], launched: str) -> str:
    """What is said of runs, but for those that a user's own script logged: nobody else knows what theirs is of."""
    logged = sum(run.config.logged for run in runs)
    if not logged:
        return launched
    return "as a script logged it" if logged == len(runs) else f"{launched}, or as a script logged it"


BETWEEN_PARTS = re.compile(r"( · |, )")
"""What parts a name of several parts: sst2 · all-MiniLM-L6-v2 · layer 0, mean."""


def short_names(names: Sequence[str], longest: int) -> list[str]:
    """Each name within a length: where one is too long, without the parts that all share, or cut.

    The parts that all begin with go first, those that all end with if that is not enough; of each name one part is
    left. What is still too long loses its middle. Names that are then alike are numbered.
    """
    parts = [BETWEEN_PARTS.split(name) for name in names]
    if len(parts) > 1 and _too_long(parts, longest):
        begin = _shared(parts)
        parts = [one[begin:] for one in parts]
        if _too_long(parts, longest):
            end = _shared([one[::-1] for one in parts])
            parts = [one[: len(one) - end] for one in parts]
    whole = ["".join(one) for one in parts]
    short = [_cut(name, longest) for name in whole]
    if len(set(short)) == len(short):
        return short
    return [f"{i}. {_cut(name, longest - len(f'{i}. '))}" for i, name in enumerate(whole, 1)]


def _too_long(parts: Sequence[Sequence[str]], longest: int) -> bool:
    return any(sum(map(len, one)) > longest for one in parts)


def _shared(parts: Sequence[Sequence[str]]) -> int:
    """How many pieces all begin with, a part and what follows it each time; of the shortest one part is left."""
    most = min(map(len, parts)) - 1
    return next((i for i in range(0, most, 2) if len({one[i] for one in parts}) > 1), most)


def _cut(name: str, longest: int) -> str:
    """The name without its middle where it is too long."""
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 2
    return f"{name[: longest - 1 - tail]}…{name[len(name) - tail :]}"
