"""The columns that files keep beside the vectors, as numbers or labels that a map can be colored by."""

from array import array
from collections import Counter
from itertools import compress
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.db.point_map import MAX_COLUMNS, MapLabels
from isoscope.files.contents import MAX_DISTINCT
from isoscope.files.matrix import Matrix
from isoscope.files.selection import excluded

LARGEST = float(np.finfo(np.float32).max)
FEW = 12
"""Different whole numbers up to which they are labels rather than a scale."""


class KeptColumn(NamedTuple):
    """A column of the rows of a map."""

    name: str
    values: NDArray[Any]
    """float32 numbers, NaN where there is none, or uint16 places in ``labels.names``."""
    labels: MapLabels | None


def kept_columns(matrix: Matrix, rows: NDArray[np.int64]) -> list[KeptColumn]:
    """Return the first columns of rows, given by their ascending places, that are no name, label or coordinate.

    Left out are columns of one value alone, and of more words than can be told apart by color.
    """
    names = _kept(matrix)
    if not names:
        return []
    columns = [_Column(name) for name in names]
    wanted = np.zeros(matrix.n, np.bool_)
    wanted[rows] = True
    for values in compress(matrix.contents.rows_of(names), wanted):
        for column, value in zip(columns, values, strict=True):
            column.add(value)
    return [found for column in columns if (found := column.found()) is not None]


def _kept(matrix: Matrix) -> list[str]:
    selection, contents = matrix.selection, matrix.contents
    used = {*selection.columns, selection.names, selection.labels}
    names = [one.name for one in contents.annotations if one.n == matrix.n]
    if not selection.transpose:
        names += [*excluded(contents, selection), *contents.real_columns]
    return [name for name in dict.fromkeys(names) if name not in used][:MAX_COLUMNS]


class _Column:
    """Collects a column as numbers while all values are, and as labels while they are few."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: array[float] | None = array("f")
        self._codes: array[int] | None = array("H")
        self._places: dict[str, int] = {}
        self._are_whole = True

    def add(self, value: str) -> None:
        """Take the value of the next row; empty where there is none."""
        if self._codes is not None:
            self._codes.append(self._places.setdefault(value, len(self._places)))
            if len(self._places) > MAX_DISTINCT + 1:
                self._codes = None
        if self._numbers is not None:
            try:
                number = float(value) if value else nan
            except ValueError:
                self._numbers = None
                return
            self._are_whole &= not isfinite(number) or number.is_integer()
            self._numbers.append(number if abs(number) < LARGEST else nan)

    def found(self) -> KeptColumn | None:
        """Return the column; None where it would color nothing."""
        distinct = len(self._places)
        if distinct < 2:
            return None
        if self._numbers is not None and not (self._are_whole and distinct <= FEW):
            return KeptColumn(self._name, np.array(self._numbers, np.float32), None)
        return None if self._codes is None else self._labeled(np.array(self._codes, np.uint16))

    def _labeled(self, codes: NDArray[np.uint16]) -> KeptColumn:
        """The most frequent labels first, the empty one of rows without last."""
        names = list(self._places)
        counts = Counter(dict(enumerate(np.bincount(codes, minlength=len(names)).tolist())))
        order = sorted(counts, key=lambda code: (not names[code], -counts[code]))
        places = np.empty(len(names), np.uint16)
        places[order] = np.arange(len(names))
        labels = MapLabels(names=[names[code] for code in order], counts=[counts[code] for code in order])
        return KeptColumn(self._name, places[codes], labels)
