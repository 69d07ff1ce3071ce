"""Rows of a matrix, ready to be measured: as many dimensions as can be, a sample, and what rows are called."""

from torch import Tensor

from isoscope.core.errors import InvalidError
from isoscope.files.matrix import Matrix
from isotropy.cloud import PAIR_ROWS, SAMPLE_ROWS
from isotropy.sample import draw

# A covariance of this many dimensions takes 2 GiB, and several are held at once.
MAX_DIMENSIONS = 16_384


def require_measurable(matrix: Matrix) -> None:
    """Refuse a matrix of more dimensions than can be measured.

    Raises:
        InvalidError: it has more than ``MAX_DIMENSIONS``.

    """
    if matrix.d > MAX_DIMENSIONS:
        raise InvalidError(
            f"Expected at most {MAX_DIMENSIONS:,} columns, of which a covariance still fits into memory, got "
            f"{matrix.d:,}. If each column is a sample, swap rows and columns; else take fewer dimensions."
        )


def draw_rows(matrix: Matrix, seed: int) -> tuple[Tensor, Tensor]:
    """Return the rows whose pairs a report by that seed looks at, and their places in the file, int64.

    They are the ``pairs`` of ``isotropy.cloud.read_cloud``, [at most ``PAIR_ROWS``, d], but nothing is summed.
    """
    points, rows = draw(matrix, SAMPLE_ROWS, seed)
    # Copies, or the whole sample would be held for as long as its head.
    return points[:PAIR_ROWS].clone(), rows[:PAIR_ROWS].clone()


def values_of(matrix: Matrix, annotation: str | None, rows: Tensor) -> list[str] | None:
    """Return the names or labels of some rows, given by their places in the file; None where none were chosen."""
    if annotation is None:
        return None
    places = {row: place for place, row in enumerate(rows.tolist())}
    found = [""] * len(places)
    for row, value in enumerate(matrix.contents.values(annotation)):
        if (place := places.get(row)) is not None:
            found[place] = value
    return found
