"""What uploaded files hold: shown to the user before anything is measured."""

from itertools import islice

import numpy as np

from isoscope.core.formatting import listed, shown
from isoscope.files.contents import Annotation, Block, Part
from isoscope.files.matrix import Matrix, MatrixStats, select
from isoscope.files.selection import Selection, doubtful, excluded, propose
from isoscope.files.strict import Frozen
from isoscope.files.text import Quoting
from isoscope.files.upload import Upload, find_upload_quoting, open_upload

PREVIEW_ROWS = 5
PREVIEW_VALUES = 8
PREVIEW_CHARACTERS = 60
USUAL_DIMENSIONS = frozenset(
    {50, 64, 100, 128, 192, 200, 256, 300, 312, 384, 512, 640, 768}
    | {1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 8192}
)


class PreviewRow(Frozen):
    """The beginning of a row; null where a value is NaN or infinite, which JSON cannot hold."""

    name: str | None
    label: str | None
    values: list[float | None]


class Inspection(Frozen):
    """The parts of the files, and the matrix that ``selection`` makes of them."""

    format: str
    """The name of one of ``isoscope.files.upload_formats.FORMATS``."""
    parts: list[Part]
    """Arrays, or columns of lists, to choose the vectors from; empty where each coordinate has its column."""
    numeric_columns: list[str]
    """Columns to choose the vectors from; empty where there are parts."""
    annotations: list[Annotation]

    selection: Selection
    n: int
    d: int
    dtype: str
    n_nonfinite: int
    """Rows with NaN, infinity or an empty cell: no measure sees them."""
    n_zero: int
    """Rows of zeros."""
    n_duplicate: int
    """Finite rows equal to an earlier one."""
    preview: list[PreviewRow]
    """The first 5 rows, of each the first 8 values."""
    warnings: list[str]
    quoting: Quoting | None = None
    """How the quotes of .tsv files were read; null where there are none."""

    @property
    def layer(self) -> int | None:
        """Which layer of its array the chosen matrix is; None where it is none."""
        return next((part.layer for part in self.parts if part.name == self.selection.vectors), None)

    def check(self, selection: Selection) -> None:
        """Raise InvalidError, with the field at fault, if the file does not have what ``selection`` names."""
        selection.check(self)


def inspect(upload: Upload, selection: Selection | None = None) -> Inspection:
    """Read the files in chunks and say what they hold under ``selection``, or under the likeliest one.

    Raises:
        IsoscopeError: a file cannot be read, holds no matrix, or lacks what is selected.

    """
    quoting = selection.quoting if selection else None
    file_format, contents = open_upload(upload, quoting)
    matrix = select(contents, selection or propose(contents))
    stats = MatrixStats()
    preview: list[PreviewRow] = []
    for chunk in matrix.chunks():
        if stats.n == 0:
            preview = _preview(matrix, chunk)
        stats.add(chunk)
    return Inspection(
        format=file_format.name,
        parts=contents.parts,
        numeric_columns=contents.numeric_columns,
        annotations=contents.annotations,
        selection=matrix.selection,
        n=matrix.n,
        d=matrix.d,
        dtype=contents.dtype(matrix.selection.vectors),
        n_nonfinite=stats.n_nonfinite,
        n_zero=stats.n_zero,
        n_duplicate=stats.n_duplicate,
        preview=preview,
        warnings=_warnings(matrix, stats),
        quoting=(meant := find_upload_quoting(upload)) and (quoting or meant),
    )


def _preview(matrix: Matrix, chunk: Block) -> list[PreviewRow]:
    """Return the top left corner of the first chunk [k, d]."""
    corner = chunk[:PREVIEW_ROWS, :PREVIEW_VALUES]
    names, labels = (
        [None] * len(corner)
        if annotation is None
        else [value[:PREVIEW_CHARACTERS] for value in islice(matrix.contents.values(annotation), len(corner))]
        for annotation in (matrix.selection.names, matrix.selection.labels)
    )
    return [
        PreviewRow(name=name, label=label, values=[float(v) if np.isfinite(v) else None for v in row])
        for name, label, row in zip(names, labels, corner, strict=True)
    ]


def _warnings(matrix: Matrix, stats: MatrixStats) -> list[str]:
    """Say what the user should know before reading any number off this matrix."""
    n, d = matrix.n - stats.n_nonfinite, matrix.d
    sentences = {
        f"None of the {stats.n:,} rows is finite, so nothing can be measured.": n == 0,
        f"Left out, because of NaN, infinity or an empty cell: {stats.n_nonfinite:,} of {stats.n:,} rows.": (
            0 < stats.n_nonfinite < stats.n
        ),
        "There is one row only: every measure of spread needs at least two.": n == 1,
        "There is one column only: isotropy compares dimensions, so it is not defined for one.": d == 1,
        f"{n:,} rows are fewer than {d:,} dimensions: plain IsoScore is biased low. Take more rows, or read "
        "the bias-corrected score instead.": 1 < n < d,
        f"This looks transposed: {matrix.n:,} is a usual number of dimensions and {d:,} is not. If each column is a "
        "sample, swap rows and columns.": matrix.n < d and matrix.n in USUAL_DIMENSIONS and d not in USUAL_DIMENSIONS,
        f"Rows of zeros: {stats.n_zero:,}. They have no direction, so they have no cosine. They also lower intrinsic "
        "dimension and raise hubness, because they are near all others.": stats.n_zero > 0,
        f"Duplicate rows: {stats.n_duplicate:,}. They count more in every measure except those of neighbors, which "
        "leave them out.": stats.n_duplicate > 0,
    }
    found = [sentence for sentence, applies in sentences.items() if applies]
    if left_out := excluded(matrix.contents, matrix.selection):
        found.append(f"Not part of the vector: {listed(left_out)}. The {matrix.d:,} chosen columns are measured.")
    return found + [
        f"{shown(one.name)} holds whole numbers, {one.n_distinct:,} different ones, and the other columns fractions. "
        "It looks like metadata: use it as the label, or exclude it."
        for one in doubtful(matrix.contents, matrix.selection)
    ]
