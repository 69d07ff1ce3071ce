"""A matrix of embeddings, read from its files in chunks of rows, and the inspection shown before it is measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import TooLargeError
from isoscope.core.formatting import listed, quote
from isoscope.files.arrays import BFLOAT16
from isoscope.files.contents import MAX_ROWS, Annotation, Block, Contents, Part
from isoscope.files.selection import Selection, excluded_columns, possible_labels, propose
from isoscope.files.strict import Frozen
from isoscope.files.text import Quoting
from isoscope.files.upload import Upload, find_upload_quoting, open_upload

MAX_CHUNK_BYTES = 32 * 2**20
DIGEST_BYTES = 16
PREVIEW_ROWS = 5
PREVIEW_VALUES = 8
PREVIEW_CHARACTERS = 60
USUAL_DIMENSIONS = frozenset(
    {50, 64, 100, 128, 192, 200, 256, 300, 312, 384, 512, 640, 768}
    | {1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 8192}
)


@dataclass(frozen=True)
class Matrix:
    """The selected vectors [n, d]; ``file_rows`` and ``dimension_numbers`` are None if nothing is excluded."""

    contents: Contents
    selection: Selection
    n: int
    d: int
    dtype: np.dtype[Any]
    file_rows: NDArray[np.int64] | None = None
    dimension_numbers: NDArray[np.int64] | None = None

    def chunks(self, rows: int = 8192) -> Iterator[Block]:
        """Yield rows in file order as arrays [at most ``rows``, d] of ``dtype``, fewer if rows are very long."""
        rows = max(1, min(rows, MAX_CHUNK_BYTES // (self.d * self.dtype.itemsize)))
        for block in self.contents.blocks(self.selection.vectors, rows, transpose=self.selection.transpose):
            with np.errstate(invalid="ignore"):  # callers count NaN
                chunk: Block = np.ascontiguousarray(block, self.dtype)
            yield chunk

    def file_positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows if self.file_rows is None else self.file_rows[rows]

    def labels(self) -> list[str] | None:
        return None if self.selection.labels is None else list(self.contents.values(self.selection.labels))

    @property
    def dimension_names(self) -> list[str] | None:
        selection = self.selection
        return None if isinstance(selection.vectors, str) or selection.transpose else selection.columns

    def groups(self) -> Iterator[str] | None:
        return None if self.selection.groups is None else self.contents.values(self.selection.groups)


def open_matrix(upload: Upload, selection: Selection) -> Matrix:
    """Open the matrix that ``selection`` makes of the files. Vectors are read by ``Matrix.chunks``."""
    return select(open_upload(upload, selection.quoting)[1], selection)


def select(contents: Contents, selection: Selection) -> Matrix:
    selection.check(contents)
    n, d = contents.shape(selection.vectors)
    if selection.transpose:
        n, d = d, n
    if n > MAX_ROWS:
        raise TooLargeError(
            f"The matrix has {n:,} rows, more than {MAX_ROWS:,}: upload a sample of them, "
            "which measures the same as soon as it has many more rows than columns."
        )
    stored_type = contents.dtype(selection.vectors)
    matrix = Matrix(
        contents, selection, n, d, np.promote_types("float32" if stored_type == BFLOAT16 else stored_type, "float32")
    )
    if not selection.without_rows and not selection.without_dimensions:
        return matrix
    rows, dimensions = selection.remaining(n, d)
    return replace(
        matrix,
        contents=RemainingContents(contents, rows, n, dimensions),
        n=len(rows),
        d=len(dimensions),
        file_rows=rows if selection.without_rows else None,
        dimension_numbers=dimensions if selection.without_dimensions else None,
    )


class MatrixStats:
    """Counts of rows that are not finite, all zero or duplicates. It takes 16 bytes per row."""

    def __init__(self) -> None:
        self.n = 0
        self.n_nonfinite = 0
        self.n_zero = 0
        self._digests = bytearray()

    def add(self, block: Block) -> None:
        finite = block[np.isfinite(block).all(axis=1)]
        self.n += len(block)
        self.n_nonfinite += len(block) - len(finite)
        self.n_zero += int(np.count_nonzero(~finite.any(axis=1)))
        # Adding zero turns -0.0 into 0.0, so that equal rows have equal bytes.
        for row in finite + 0.0:
            self._digests += blake2b(row, digest_size=DIGEST_BYTES).digest()

    @property
    def n_duplicate(self) -> int:
        digests: NDArray[np.bytes_] = np.frombuffer(self._digests, f"S{DIGEST_BYTES}")
        return len(digests) - len(np.unique(digests))


class RemainingContents(Contents):
    """Contents without the excluded rows and dimensions of a matrix; ``n`` counts the rows before the exclusion."""

    def __init__(self, contents: Contents, rows: NDArray[np.int64], n: int, dimensions: NDArray[np.int64]) -> None:
        self._contents = contents
        self._mask = np.zeros(n, bool)
        self._mask[rows] = True
        self._dimensions = dimensions
        self.n, self.parts = contents.n, contents.parts
        self.numeric_columns, self.real_columns = contents.numeric_columns, contents.real_columns
        self.annotations = [
            annotation.model_copy(update={"n": len(rows)}) for annotation in contents.annotations if annotation.n == n
        ]

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        n_read = 0
        for block in self._contents.blocks(vectors, rows, transpose=transpose):
            mask = self._mask[n_read : n_read + len(block)]
            n_read += len(block)
            if mask.any():
                yield block[mask][:, self._dimensions]

    def values(self, annotation: str) -> Iterator[str]:
        return compress(self._contents.values(annotation), self._mask)

    def rows_of(self, annotations: Sequence[str]) -> Iterator[tuple[str, ...]]:
        return compress(self._contents.rows_of(annotations), self._mask)


class PreviewRow(Frozen):
    """The beginning of a row; null where a value is not finite, which JSON cannot hold."""

    name: str | None
    label: str | None
    values: list[float | None]


NO_FINITE_ROW = (
    "Every row has NaN, infinity or an empty cell, so nothing can be measured. Find where they come from (overflow in "
    "float16 and empty texts are common) and upload the file again, or choose other vectors."
)


class Inspection(Frozen):
    """The parts of the files, and the matrix that ``selection`` makes of them."""

    format: str
    parts: list[Part]
    numeric_columns: list[str]
    annotations: list[Annotation]

    selection: Selection
    n: int
    d: int
    dtype: str
    n_nonfinite: int
    n_zero: int
    n_duplicate: int
    preview: list[PreviewRow]
    warnings: list[str]
    quoting: Quoting | None = None

    @property
    def layer(self) -> int | None:
        return next((part.layer for part in self.parts if part.name == self.selection.vectors), None)


def inspect(upload: Upload, selection: Selection | None = None) -> Inspection:
    """Read the files in chunks and describe them under ``selection``, or under the likeliest one."""
    quoting = selection.quoting if selection else None
    file_format, contents = open_upload(upload, quoting)
    matrix = select(contents, selection or propose(contents))
    stats = MatrixStats()
    preview: list[PreviewRow] = []
    for chunk in matrix.chunks():
        if stats.n == 0:
            corner = chunk[:PREVIEW_ROWS, :PREVIEW_VALUES]
            names = _first_values(matrix, matrix.selection.names, len(corner))
            labels = _first_values(matrix, matrix.selection.labels, len(corner))
            preview = [
                PreviewRow(name=name, label=label, values=[float(v) if np.isfinite(v) else None for v in row])
                for name, label, row in zip(names, labels, corner, strict=True)
            ]
        stats.add(chunk)
    detected_quoting = find_upload_quoting(upload)
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
        quoting=detected_quoting and (quoting or detected_quoting),
    )


def _first_values(matrix: Matrix, annotation: str | None, n: int) -> Sequence[str | None]:
    if annotation is None:
        return [None] * n
    return [value[:PREVIEW_CHARACTERS] for value in islice(matrix.contents.values(annotation), n)]


def _warnings(matrix: Matrix, stats: MatrixStats) -> list[str]:
    n, d = matrix.n - stats.n_nonfinite, matrix.d
    sentences = {
        NO_FINITE_ROW: n == 0,
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
    warnings = [sentence for sentence, applies in sentences.items() if applies]
    part = next((part for part in matrix.contents.parts if part.name == matrix.selection.vectors), None)
    if part is not None and part.layer is not None:
        layers = [sibling.layer for sibling in matrix.contents.parts if sibling.stack == part.stack]
        warnings.append(
            f"{quote(part.stack or part.name)} has three dimensions, read as layers x rows x columns. Layer "
            f"{part.layer} of 0 to {len(layers) - 1} is measured. Choose another below."
        )
    if left_out := excluded_columns(matrix.contents, matrix.selection):
        warnings.append(f"Not part of the vector: {listed(left_out)}. The {matrix.d:,} chosen columns are measured.")
    return warnings + [
        f"{quote(annotation.name)} holds whole numbers, {annotation.n_distinct:,} different ones, and the other "
        "columns fractions. It looks like metadata: use it as the label, or exclude it."
        for annotation in possible_labels(matrix.contents, matrix.selection)
    ]
