"""What runs predicted row by row, as people and spreadsheets read it."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import select

from app.context import Context
from app.db.models import Run, Split
from app.db.models import RunPredictions as Stored
from app.db.predictions import Predictions, read_predictions
from app.figures.figure import Table
from app.services.openings import require_opened
from isoscope.core.errors import NotFoundError
from isoscope.core.task import TaskKind

ROWS_AT_ONCE = 5000


class PredictionRow(NamedTuple):
    """What a run predicted for one row of its data set."""

    row: int
    """Position in the rows of the split, from 0."""
    reference: int | float | str | None
    predicted: int | float | str
    exact_match: float | None
    f1: float | None


class RunPredictions(NamedTuple):
    """The predictions of a run, classes by their names."""

    run: Run
    predictions: Predictions

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[PredictionRow]:
        """Yield the rows from place ``start`` up to ``stop``."""
        found, some = self.predictions, slice(start, stop)
        n = len(found.rows[some])
        names = self.run.config.label_names
        named = found.kind is TaskKind.CLASSIFICATION and bool(names)
        columns = (
            found.rows[some].tolist(),
            [None] * n if found.reference is None else found.reference[some].tolist(),
            found.predicted[some] if isinstance(found.predicted, tuple) else found.predicted[some].tolist(),
            [None] * n if found.exact_match is None else found.exact_match[some].tolist(),
            [None] * n if found.f1 is None else found.f1[some].tolist(),
        )
        for row, reference, predicted, exact_match, f1 in zip(*columns, strict=True):
            if named:
                yield PredictionRow(row, _name(names, reference), _name(names, predicted), None, None)
            else:
                yield PredictionRow(row, reference, predicted, exact_match, f1)

    def csv(self) -> Iterator[str]:
        """Yield all rows as CSV, some thousand at a time."""
        spans = self.predictions.kind is TaskKind.SPAN
        left_out = ("reference",) if spans else ("exact_match", "f1")
        columns = [name for name in PredictionRow._fields if name not in left_out]
        yield Table(columns, []).csv()
        for start in range(0, len(self.predictions), ROWS_AT_ONCE):
            some = self.rows(start, start + ROWS_AT_ONCE)
            lines = Table(columns, [[getattr(row, name) for name in columns] for row in some]).csv()
            yield lines.partition("\n")[2]


def get_predictions(context: Context, run_id: str, split: Split = Split.VALIDATION) -> RunPredictions:
    """Return what a run predicted for the validation rows, or for the test rows of an experiment that was opened.

    Raises:
        ConflictError: the test rows are sealed.

    """
    with context.sessions() as session:
        run = session.get(Run, run_id)
        if run is not None:
            require_opened(session, run, split)
        found = read_predictions(session, [run_id], split).get(run_id)
    if run is None:
        raise NotFoundError(f"There is no run {run_id!r}; it may have been deleted with its experiment.")
    if found is None:
        raise NotFoundError(
            f"No {split} predictions are stored for run {run_id!r}. They are stored when a run finishes, or when a "
            "script logs them; runs of earlier versions have none."
        )
    return RunPredictions(run, found)


def count_predictions(context: Context, run_id: str) -> int | None:
    """Return how many rows a run has predictions for; None where it has none."""
    with context.sessions() as session:
        return session.scalar(select(Stored.n).where(Stored.run_id == run_id, Stored.split == Split.VALIDATION))


def _name(names: list[str], place: int) -> str:
    return names[place] if 0 <= place < len(names) else str(place)
