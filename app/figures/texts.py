"""What a model reads of validation rows: each row as one text, or for spans the windows that it is cut into."""

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
