"""What runs say of settings, of those to which they mean something; they differ in what has several values."""

from collections.abc import Iterable, Sequence

from app.db.models import Run
from app.figures.figure import Cell
from app.results.setting import setting_of


def told(fields: Sequence[str], runs: Iterable[Run]) -> dict[str, set[Cell]]:
    """The values of each of these fields of configurations, as tables hold them."""
    kinds = {setting_of(run, fields).values for run in runs}
    return {field: {values[place] for values in kinds} - {None} for place, field in enumerate(fields)}


def differing(fields: Sequence[str], runs: Iterable[Run]) -> list[str]:
    """Those of the fields that have several values."""
    return [field for field, values in told(fields, runs).items() if len(values) > 1]
