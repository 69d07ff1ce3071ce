"""Parquet: the schema first, then batches of columns of text, numbers, lists of numbers, or answers to a question."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import listed, quote
from isoscope.files.compressed import require_plausible_size
from isoscope.files.contents import MAX_ROWS, AnnotationStats, Block, Part
from isoscope.files.span import STARTS, TEXTS
from isoscope.files.table import MAX_COLUMNS as MAX_TABLE_COLUMNS
from isoscope.files.table import (
    Cells,
    Table,
    TableVectors,
    ValueKind,
    VectorColumns,
    VectorTable,
    assign_roles,
    require_columns,
)
from isoscope.files.text import MAX_COLUMNS, Quoting

MAX_TABLE_ROWS = 20_000_000
MAX_ROW_GROUPS = 10_000
MAX_METADATA_BYTES = 16 * 2**20
BATCH_ROWS = 4096
BUFFER_BYTES = 2**20
MAX_BATCH_BYTES = 32 * 2**20
MAX_NUMBER_BYTES = 8
# pandas begins the name of an index column like this.
INDEX_PREFIX = "__index_level_"

Batches = Iterator[tuple[int, pa.RecordBatch]]  # the number of rows before each batch, and the batch


def open_table(path: Path, _: Quoting | None = None) -> Table:
    """Open a file by its schema; its columns are those of text, numbers or answers."""
    table = ParquetTable(path, MAX_TABLE_ROWS, MAX_TABLE_COLUMNS)
    if not table.columns:
        raise InvalidError(
            "No column of the parquet file holds text or numbers: write the texts and labels as plain columns."
        )
    return table


def open_vectors(path: Path, _: Quoting | None = None) -> TableVectors:
    return TableVectors(ParquetTable(path, MAX_ROWS, MAX_COLUMNS))


class ParquetTable(VectorTable):
    """A file of columns, of which only the schema is read here."""

    row_label = "Row {:,}"

    def __init__(self, path: Path, max_rows: int, max_columns: int) -> None:
        self._path = path
        with _open(path) as file:
            groups, self._n = file.metadata.num_row_groups, file.metadata.num_rows
            if groups > MAX_ROW_GROUPS or self._n > max_rows:
                raise TooLargeError(
                    f"The file has {self._n:,} rows in {groups:,} groups, expected at most {max_rows:,} in "
                    f"{MAX_ROW_GROUPS:,}: write a part of it."
                )
            self._schema = file.schema_arrow
        require_columns(self._schema.names, max_columns)
        self.columns = [field.name for field in self._schema if _is_scalar(field.type) or _is_span(field.type)]
        self._widths: dict[str, int] = {}

    def vector_columns(self) -> VectorColumns:
        if self._n == 0:
            raise InvalidError("The parquet file has columns but no rows, so there is nothing to measure.")
        problems: list[str] = []
        parts = [
            part for field in self._schema if _is_numbers(field.type) and (part := self._read_part(field, problems))
        ]
        if problems and not parts:
            raise InvalidError(problems[0])
        kinds = {field.name: ValueKind.TEXT for field in self._schema if _is_scalar(field.type)}
        for name in kinds:
            if pa.types.is_integer(type_ := self._schema.field(name).type):
                kinds[name] = ValueKind.INTEGER
            elif pa.types.is_floating(type_):
                kinds[name] = ValueKind.REAL
        numeric, annotations = assign_roles(kinds, [name for name in kinds if name.startswith(INDEX_PREFIX)])
        if not parts and not numeric:
            column_types = listed([f"{field.name}: {field.type}" for field in self._schema]) or "none"
            raise InvalidError(
                f"No column of the parquet file holds numbers or lists of numbers, found {column_types}: "
                "write each vector as one list of float32, or each coordinate as a column."
            )
        widest = max((part.d for part in parts), default=len(numeric))
        declared_bytes = self._n * widest * np.dtype(np.float32).itemsize
        require_plausible_size(
            f"The file of {self._n:,} rows with {widest:,} numbers", declared_bytes, self._path.stat().st_size
        )
        self._widths = {part.name: part.d for part in parts}
        stats = AnnotationStats(annotations)
        for _number, values in self.cells(annotations):
            stats.add(values)
        return VectorColumns(self._n, parts, numeric, stats.annotations())

    def cells(self, columns: Sequence[str]) -> Cells:
        for start, batch in self._batches(columns, BATCH_ROWS) if columns else ():
            with _converting_errors():
                rows = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
            yield from enumerate(rows, start=start + 1)

    def lists(self, column: str, step: int) -> Iterator[Block]:
        d = self._widths[column]
        for start, batch in self._batches([column], step):
            lists = batch.column(column)
            _require_width(lists, start, column, d)
            values: Block = lists.flatten().to_numpy(zero_copy_only=False)
            yield values.reshape(len(lists), d)

    def numbers(self, columns: list[str], step: int) -> Iterator[Block]:
        for _, batch in self._batches(columns, step):
            block = np.empty((len(batch), len(columns)))
            for i, column in enumerate(columns):
                block[:, i] = batch.column(column).to_numpy(zero_copy_only=False)
            yield block

    def _batches(self, columns: Sequence[str], step: int) -> Batches:
        start = 0
        with _open(self._path) as file:
            for batch in file.iter_batches(step, columns=list(columns), use_threads=False):
                yield start, batch
                start += len(batch)
        if start != self._n:
            raise InvalidError(
                f"The parquet file declares {self._n:,} rows, but holds {start:,}: it was altered. Write it again."
            )

    def _read_part(self, field: pa.Field, problems: list[str]) -> Part | None:
        """Return a column of lists as a part. If lengths differ, return None and add the reason to ``problems``."""
        dtype = np.dtype(field.type.value_type.to_pandas_dtype()).name
        if pa.types.is_fixed_size_list(field.type):
            return Part(name=field.name, n=self._n, d=field.type.list_size, dtype=dtype)
        try:
            first_column = next(self._batches([field.name], 1))[1].column(field.name)
            d = len(first_column[0]) if first_column[0].is_valid else 0
            if d == 0:
                raise InvalidError(
                    f"Row 1 of the column {quote(field.name)} holds no numbers: give every row a list of as many."
                )
            for start, batch in self._batches([field.name], max(1, MAX_BATCH_BYTES // (MAX_NUMBER_BYTES * d))):
                _require_width(batch.column(field.name), start, field.name, d)
        except InvalidError as error:
            problems.append(error.message)
            return None
        return Part(name=field.name, n=self._n, d=d, dtype=dtype)


@contextmanager
def _open(path: Path) -> Iterator[pq.ParquetFile]:
    with (
        _converting_errors(),
        pq.ParquetFile(
            path,
            buffer_size=BUFFER_BYTES,
            thrift_string_size_limit=MAX_METADATA_BYTES,
            thrift_container_size_limit=MAX_METADATA_BYTES,
        ) as file,
    ):
        yield file


@contextmanager
def _converting_errors() -> Iterator[None]:
    try:
        yield
    except MemoryError:  # pyarrow's is a pa.ArrowException too, but the sandbox reports its memory limit
        raise
    except UnicodeDecodeError:
        raise InvalidError(
            "The parquet file holds a text that is not UTF-8, as parquet's texts have to be: write it again."
        ) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0][:160]
        raise InvalidError(
            f"The parquet file cannot be read ({reason}): it was cut off, altered, or is something else. "
            "Write it again."
        ) from None


def _require_width(lists: pa.Array, start: int, name: str, d: int) -> None:
    widths = lists.value_lengths().fill_null(0).to_numpy()
    if (wrong_rows := np.flatnonzero(widths != d)).size:
        row = int(wrong_rows[0])
        content = f"a list of {widths[row]:,} numbers" if lists[row].is_valid else "no list"
        raise InvalidError(
            f"Row {start + row + 1:,} of the column {quote(name)} holds {content}, expected {d:,} numbers as in the "
            "first row: give every row as many, and leave out rows without a vector."
        )


def _is_scalar(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _is_scalar(type_.value_type)
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    return bool(is_number or pa.types.is_boolean(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_span(type_: pa.DataType) -> bool:
    """Return whether a column type holds answers: a list of texts and one of positions."""
    if not pa.types.is_struct(type_):
        return False
    lists = {
        field.name: field.type.value_type
        for field in type_
        if pa.types.is_list(field.type) or pa.types.is_large_list(field.type)
    }
    texts, starts = lists.get(TEXTS), lists.get(STARTS)
    if texts is None or starts is None:
        return False
    return bool(pa.types.is_integer(starts) and (pa.types.is_string(texts) or pa.types.is_large_string(texts)))


def _is_numbers(type_: pa.DataType) -> bool:
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)):
        return False
    return bool(pa.types.is_integer(type_.value_type) or pa.types.is_floating(type_.value_type))
