"""Vectors of files in memory, each with an id by which ground truth names it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural
from isoscope.files.contents import Contents
from isoscope.files.matrix import Matrix, select
from isoscope.files.selection import Selection, propose
from isoscope.files.upload import NamedFile, Upload, open_upload
from isoscope.files.wording import shown

ID_NAMES = ("id", "_id", "ids", "doc_id", "docid", "corpus-id", "corpus_id", "query-id", "query_id", "qid")


@dataclass(frozen=True)
class NamedVectors:
    """The vectors of a file, in memory, and what its rows are called."""

    filename: str
    x: NDArray[np.float32]
    ids: list[str]
    column: str | None
    """Where the ids come from; None: they are the numbers of the rows."""
    groups: list[str] | None
    labels: list[str] | None

    def rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each id, -1 where there is none."""
        places = {name: row for row, name in enumerate(self.ids)}
        return np.array([places.get(name, -1) for name in ids], np.int64)

    @property
    def called(self) -> str:
        """Where the ids come from, for an error."""
        numbers = f"Rows of {self.filename} are called by their numbers from 0"
        return numbers if self.column is None else f"Ids of {self.filename} are those of {shown(self.column)}"


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
    column = _ids_column(contents, ids, chosen)
    matrix = select(contents, Selection(vectors=vectors, names=column, labels=labels, groups=groups))
    x = _in_memory(matrix, paths[0].name, what)
    called = matrix.names() or [str(row) for row in range(matrix.n)]
    most = Counter(called).most_common(1)[0]
    if most[1] > 1:
        raise InvalidError(
            f"{shown(most[0])} names {most[1]:,} rows of {paths[0].name}: an id must name one row. Remove the others, "
            "or choose the column of ids by --ids.",
            what,
        )
    of_groups = matrix.groups()
    return NamedVectors(
        paths[0].name, x, called, column, None if of_groups is None else list(of_groups), matrix.labels()
    )


def _ids_column(contents: Contents, asked: str | None, chosen: Selection) -> str | None:
    if asked is not None:
        return asked
    offered = {each.name.lower(): each.name for each in reversed(contents.annotations)}
    return next((offered[name] for name in ID_NAMES if name in offered), chosen.names)


def _in_memory(matrix: Matrix, filename: str, what: str) -> NDArray[np.float32]:
    x = np.empty((matrix.n, matrix.d), np.float32)
    start = 0
    for chunk in matrix.chunks():
        with np.errstate(over="ignore"):  # what does not fit float32 is told as infinite below
            x[start : start + len(chunk)] = chunk
        start += len(chunk)
    unfit = int((~np.isfinite(x).all(axis=1)).sum())
    if unfit:
        raise InvalidError(f"{plural(unfit, 'row')} of {filename} hold NaN or infinity: remove them.", what)
    return x
