"""Vectors in parquet: a column of lists of numbers, or a column of numbers for each coordinate."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from app.formats.contents import MAX_ROWS, Block, Part
from app.formats.expansion import require_honest
from app.formats.layout import Kind, roles
from app.formats.parquet import BATCH_ROWS, is_scalar, open_parquet, require_rows, scalar_rows
from app.formats.row_file import RowFile
from app.formats.table_file import require_columns
from app.formats.tally import Tally, cell_text
from app.formats.text import MAX_COLUMNS
from app.formats.wording import listed, shown
from isoscope.core.errors import InvalidError

MAX_BATCH_BYTES = 32 * 2**20
WIDEST_BYTES = 8
INDEX = "__index_level_"
"""How pandas begins the name of a column that counts the rows."""


class ParquetVectors(RowFile):
    """A file of columns. Lists that may differ in length are read once here, and all columns once by each matrix."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with open_parquet(path) as file:
            schema = file.schema_arrow
            self.n = file.metadata.num_rows
            require_rows(file.metadata, MAX_ROWS)
        require_columns(schema.names, MAX_COLUMNS)
        if self.n == 0:
            raise InvalidError("The parquet file has columns but no rows, so there is nothing to measure.")
        lists = [field for field in schema if _is_list(field.type)]
        self._troubles: list[str] = []
        self.parts = [part for field in lists if (part := self._part_of(field))]
        if self._troubles and not self.parts:
            raise InvalidError(self._troubles[0])
        scalars = {field.name: field.type for field in schema if is_scalar(field.type)}
        counted = [name for name in scalars if name.startswith(INDEX)]
        numeric, annotations = roles({name: _kind(type_) for name, type_ in scalars.items()}, counted)
        if not self.parts and not numeric:
            raise InvalidError(
                f"No column of the parquet file holds numbers or lists of numbers, found {_described(schema)}: "
                "write each vector as one list of float32, or each coordinate as a column."
            )
        self.numeric_columns = [] if self.parts else numeric
        widest = max((part.d for part in self.parts), default=len(numeric))
        declared = self.n * widest * np.dtype(np.float32).itemsize
        require_honest(f"The file of {self.n:,} rows with {widest:,} numbers", declared, path.stat().st_size)
        tally = Tally({name: i for i, name in enumerate(annotations)})
        for row in self._scalars(annotations):
            tally.add(row)
        self.annotations = tally.annotations()

    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        """Yield the lists of a column, or the numbers of some columns, NaN where one is missing."""
        columns = [vectors] if isinstance(vectors, str) else vectors
        for start, batch in self._batches(columns, step):
            if isinstance(vectors, str):
                yield _block(batch.column(vectors), start, vectors, self._part(vectors).d)
            else:
                block = np.empty((len(batch), len(columns)))
                for i, column in enumerate(columns):
                    block[:, i] = batch.column(column).to_numpy(zero_copy_only=False)
                yield block

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of a column."""
        return (cell_text(value) for (value,) in self._scalars([annotation]))

    def _scalars(self, columns: list[str]) -> Iterator[tuple[object, ...]]:
        if columns:
            for _, batch in self._batches(columns, BATCH_ROWS):
                yield from scalar_rows(batch, columns)

    def _batches(self, columns: list[str], step: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the columns in batches of at most ``step`` rows, each with the number of rows before it."""
        start = 0
        with open_parquet(self._path) as file:
            for batch in file.iter_batches(step, columns=columns, use_threads=False):
                yield start, batch
                start += len(batch)
        if start != self.n:
            raise InvalidError(
                f"The parquet file declares {self.n:,} rows, but holds {start:,}: it was altered. Write it again."
            )

    def _part_of(self, field: pa.Field) -> Part | None:
        """Return the part that a column of lists is, or note why it is none."""
        dtype = np.dtype(field.type.value_type.to_pandas_dtype()).name
        if pa.types.is_fixed_size_list(field.type):
            return Part(name=field.name, n=self.n, d=field.type.list_size, dtype=dtype)
        try:
            first = next(self._batches([field.name], 1))[1].column(field.name)
            d = len(first[0]) if first[0].is_valid else 0
            if d == 0:
                raise InvalidError(
                    f"Row 1 of the column {shown(field.name)} holds no numbers: give every row a list of as many."
                )
            for start, batch in self._batches([field.name], max(1, MAX_BATCH_BYTES // (WIDEST_BYTES * d))):
                _require_width(batch.column(field.name), start, field.name, d)
        except InvalidError as error:
            self._troubles.append(error.message)
            return None
        return Part(name=field.name, n=self.n, d=d, dtype=dtype)


def _require_width(lists: pa.Array, start: int, name: str, d: int) -> None:
    """Refuse lists that are missing or not of d numbers, by the number of the first such row."""
    widths = lists.value_lengths().fill_null(0).to_numpy()
    if (wrong := np.flatnonzero(widths != d)).size:
        row = int(wrong[0])
        found = f"a list of {widths[row]:,} numbers" if lists[row].is_valid else "no list"
        raise InvalidError(
            f"Row {start + row + 1:,} of the column {shown(name)} holds {found}, expected {d:,} numbers as in the "
            "first row: give every row as many, and leave out rows without a vector."
        )


def _block(lists: pa.Array, start: int, name: str, d: int) -> Block:
    """Return lists as a block [k, d]."""
    _require_width(lists, start, name, d)
    values: Block = lists.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(lists), d)


def _is_list(type_: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(type_) for test in tests) and _is_number(type_.value_type)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _kind(type_: pa.DataType) -> Kind:
    if pa.types.is_integer(type_):
        return Kind.WHOLE
    return Kind.REAL if pa.types.is_floating(type_) else Kind.TEXT


def _described(schema: pa.Schema) -> str:
    return listed([f"{field.name}: {field.type}" for field in schema]) or "none"
