"""Vectors of files in memory, each with an id by which ground truth names it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural
from isoscope.files.matrix import Matrix, select
from isoscope.files.row_ids import RowIds, read_ids
from isoscope.files.selection import Selection, propose
from isoscope.files.upload import NamedFile, Upload, open_upload


@dataclass(frozen=True)
class NamedVectors:
    """The vectors of a file, in memory, and what its rows are called."""

    filename: str
    x: NDArray[np.float32]
    named: RowIds
    groups: list[str] | None
    labels: list[str] | None

    @property
    def ids(self) -> list[str]:
        """The id of each row."""
        return self.named.values

    @property
    def called(self) -> str:
        """Where the ids come from, for an error."""
        return self.named.called

    def rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each id, -1 where there is none."""
        return np.array(self.named.rows(ids), np.int64)


def read_vectors(
    paths: Sequence[Path],
    what: str,
    *,
    annotations: Path | None = None,
    vectors: str | list[str] | None = None,
    ids: str | None = None,
    labels: str | None = None,
    groups: str | None = None,
) -> NamedVectors:
    """Read vectors into memory, with ids of their rows; files after the first continue its rows.

    Args:
        paths: the files.
        what: "corpus" or "queries", the field of errors.
        annotations: a file of further columns.
        vectors: the array or the columns; None takes the likeliest.
        ids: the column of ids; None takes the likeliest, or the numbers of the rows.
        labels: the column of labels.
        groups: the column of groups.

    Raises:
        InvalidError: the vectors cannot be used; the sentence says why.

    """
    named = NamedFile(annotations, annotations.name) if annotations else None
    _, contents = open_upload(Upload(tuple(NamedFile(path, path.name) for path in paths), named))
    chosen = propose(contents)
    vectors = vectors or chosen.vectors
    if isinstance(vectors, list) and contents.parts:
        vectors = ",".join(vectors)
    rows = select(contents, Selection(vectors=vectors))
    called = read_ids(rows, paths[0].name, ids, chosen.names, what)
    called.require_unique(what, "choose the column of ids by --ids")
    matrix = select(contents, Selection(vectors=vectors, names=called.column, labels=labels, groups=groups))
    return vectors_of(matrix, called, what)


def vectors_of(matrix: Matrix, called: RowIds, what: str) -> NamedVectors:
    """Read a matrix into memory.

    Raises:
        InvalidError: it holds NaN or infinity.

    """
    x = _in_memory(matrix, called.filename, what)
    groups = matrix.groups()
    return NamedVectors(called.filename, x, called, None if groups is None else list(groups), matrix.labels())


def _in_memory(matrix: Matrix, filename: str, what: str) -> NDArray[np.float32]:
    x = np.empty((matrix.n, matrix.d), np.float32)
    start = 0
    for chunk in matrix.chunks():
        with np.errstate(over="ignore"):  # what does not fit float32 is told as infinite below
            x[start : start + len(chunk)] = chunk
        start += len(chunk)
    if start != matrix.n:
        raise InvalidError(f"{filename} has {plural(start, 'row')}, expected {matrix.n:,}: upload it again.", what)
    unfit = int((~np.isfinite(x).all(axis=1)).sum())
    if unfit:
        raise InvalidError(f"{plural(unfit, 'row')} of {filename} hold NaN or infinity: remove them.", what)
    return x
