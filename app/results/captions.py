"""What the numbers of runs are of, in words: what a model reads of validation rows, or what a script logged."""

from collections.abc import Sequence

from app.db.models import Run
from app.db.task import TaskKind
from app.numerals import plural


def texts(runs: Sequence[Run], n: int | None = None) -> str:
    """What the runs read, and how many of them: validation rows; 1,204 windows of validation rows."""
    spans = any(run.config.get("task") == TaskKind.SPAN for run in runs)
    noun, nouns = (
        ("window of validation rows", "windows of validation rows") if spans else ("validation row", "validation rows")
    )
    return nouns if n is None else plural(n, noun, nouns)


def to_come(runs: Sequence[Run], coming: str, never: str) -> str:
    """What stands in place of a figure without data: what is to come, or once all runs have ended, what never was."""
    return never if all(run.status.final for run in runs) else coming


def by_scripts(runs: Sequence[Run], launched: str) -> str:
    """What is said of runs, but for those that a user's own script logged: nobody else knows what theirs is of."""
    logged = sum(bool(run.config.get("logged")) for run in runs)
    if not logged:
        return launched
    return "as a script logged it" if logged == len(runs) else f"{launched}, or as a script logged it"
