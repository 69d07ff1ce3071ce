"""Parquet: the schema first, then batches of the columns that hold text, numbers, true and false, or answers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.formats.span import STARTS, TEXTS, span_text
from app.formats.table_file import Scalar, TableFile, require_columns
from app.formats.wording import storable
from isoscope.core.errors import InvalidError, TooLargeError

MAX_ROWS = 20_000_000
MAX_ROW_GROUPS = 10_000
MAX_METADATA_BYTES = 16 * 2**20
BATCH_ROWS = 4096
BUFFER_BYTES = 2**20


def read_parquet(path: Path) -> TableFile:
    """Open a file by its schema. Nested columns other than answers, dates and bytes are not offered."""
    with open_parquet(path) as file:
        schema = file.schema_arrow
        require_rows(file.metadata, MAX_ROWS)
        require_columns(schema.names)
        columns = [field.name for field in schema if is_scalar(field.type) or _is_span(field.type)]
    if not columns:
        raise InvalidError(
            "No column of the parquet file holds text or numbers: write the texts and labels as plain columns."
        )
    return TableFile(columns, partial(_rows, path, columns))


def require_rows(metadata: pq.FileMetaData, max_rows: int) -> None:
    """Refuse more rows, or groups of them, than are read here."""
    if metadata.num_row_groups > MAX_ROW_GROUPS or metadata.num_rows > max_rows:
        raise TooLargeError(
            f"The file has {metadata.num_rows:,} rows in {metadata.num_row_groups:,} groups, expected at most "
            f"{max_rows:,} in {MAX_ROW_GROUPS:,}: write a part of it."
        )


def _rows(path: Path, columns: list[str]) -> Iterator[Sequence[Scalar | None]]:
    with open_parquet(path) as file:
        batches = file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False)
        rows = (row for batch in batches for row in scalar_rows(batch, columns))
        for number, row in enumerate(rows, start=1):
            yield [_scalar(value, name, number) for name, value in zip(columns, row, strict=True)]


def scalar_rows(batch: pa.RecordBatch, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """Return the rows of some columns of a batch as Python's own values."""
    try:
        return zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
    except UnicodeDecodeError:
        raise InvalidError(
            "The parquet file holds a text that is not UTF-8, as parquet's texts have to be: write it again."
        ) from None


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a file, and turn what pyarrow says of a broken one, now or while it is read, into a sentence."""
    try:
        with pq.ParquetFile(
            path,
            buffer_size=BUFFER_BYTES,
            thrift_string_size_limit=MAX_METADATA_BYTES,
            thrift_container_size_limit=MAX_METADATA_BYTES,
        ) as file:
            yield file
    except MemoryError:  # pyarrow's own is a pa.ArrowException too, but it is the sandbox that knows the limit
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0][:160]
        raise InvalidError(
            f"The parquet file cannot be read ({reason}): it was cut off, altered, or is something else. "
            "Write it again."
        ) from None


def is_scalar(type_: pa.DataType) -> bool:
    """Whether a column of this type holds text, numbers, or true and false."""
    if pa.types.is_dictionary(type_):
        return is_scalar(type_.value_type)
    return any(
        test(type_)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
        )
    )


def _is_span(type_: pa.DataType) -> bool:
    """Whether a column of this type holds answers: a list of texts and one of positions, and whatever else."""
    if not pa.types.is_struct(type_):
        return False
    lists = {field.name: field.type.value_type for field in type_ if _is_list(field.type)}
    texts, starts = lists.get(TEXTS), lists.get(STARTS)
    if texts is None or starts is None:
        return False
    return bool(pa.types.is_integer(starts) and (pa.types.is_string(texts) or pa.types.is_large_string(texts)))


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _scalar(value: Any, column: str, number: int) -> Scalar | None:
    if isinstance(value, str):
        return storable(value) if value.strip() else None
    if isinstance(value, dict):
        return span_text(value, column, f"Row {number:,}")
    return None if value is None or math.isnan(value) else value
