"""The ids by which ground truth names the rows of vectors, and vectors in memory with them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, plural, shown
from isoscope.files.matrix import Matrix, select
from isoscope.files.selection import Selection, propose
from isoscope.files.upload import NamedFile, Upload, open_upload

ID_NAMES = ("id", "_id", "ids", "doc_id", "docid", "corpus-id", "corpus_id", "query-id", "query_id", "qid")


def id_column(columns: Iterable[str]) -> str | None:
    """Return the likeliest column of ids; None where no name tells of any."""
    lower = {name.lower(): name for name in reversed(list(columns))}
    return next((lower[name] for name in ID_NAMES if name in lower), None)


@dataclass(frozen=True)
class RowIds:
    """What the rows of a file are called."""

    filename: str
    values: list[str]
    column: str | None
    """Where the ids come from; None: they are the numbers of the rows."""

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Return the row of each id, -1 where there is none."""
        places = {name: row for row, name in enumerate(self.values)}
        return [places.get(name, -1) for name in ids]

    @property
    def called(self) -> str:
        """Where the ids come from, for an error."""
        numbers = f"Rows of {self.filename} are called by their numbers from 0"
        return numbers if self.column is None else f"Ids of {self.filename} are those of {shown(self.column)}"

    def require_unique(self, what: str, advice: str) -> None:
        """Raise InvalidError where an id names several rows, with what to do about it."""
        name, count = Counter(self.values).most_common(1)[0]
        if count > 1:
            raise InvalidError(
                f"{shown(name)} names {count:,} rows of {self.filename}: an id must name one row. Remove the others, "
                f"or {advice}.",
                what,
            )


def read_ids(matrix: Matrix, filename: str, asked: str | None, names: str | None, what: str = "ids") -> RowIds:
    """Return the ids of a matrix's rows; their numbers are those in its files.

    Args:
        matrix: the rows.
        filename: what the user calls its files.
        asked: the column of ids; None takes the likeliest, or the numbers of the rows.
        names: the column that names the rows, which is taken before the numbers.
        what: the field of errors.

    Raises:
        InvalidError: there is no such column.

    """
    offered = {each.name: each for each in matrix.contents.annotations if each.n == matrix.n}
    if asked is not None and asked not in offered:
        columns = f"Columns are: {listed(offered)}." if offered else "It has no such columns."
        raise InvalidError(f"{filename} has no column {shown(asked)} of ids. {columns}", what)
    column = asked or id_column(offered) or names
    numbers = range(matrix.n) if matrix.row_places is None else matrix.row_places
    values = [str(row) for row in numbers] if column is None else list(matrix.contents.values(column))
    return RowIds(filename, values, column)


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
        raise InvalidError(
            f"{plural(unfit, 'row')} of {filename} hold NaN, infinity or numbers beyond float32: remove them.", what
        )
    return x
