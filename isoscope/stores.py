"""Copy vectors from a PostgreSQL table or a FAISS index to files on this machine, which a dashboard accepts."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from isoscope.core.errors import FullDiskError, InvalidError, UnavailableError
from isoscope.core.formatting import listed, one_line, quote

MAX_BLOCK_NUMBERS = 2**20  # Numbers held at once. As Python floats they take 32 bytes each
# NumPy type for each PostgreSQL vector type.
DTYPES = {"vector": np.float32, "halfvec": np.float16, "_float4": np.float32, "_float8": np.float64}
COLUMNS_QUERY = """select attname, typname from pg_attribute join pg_type on atttypid = pg_type.oid
where attrelid = %s::regclass and attnum > 0 order by attnum"""
FAISS_SUFFIXES = (".faiss", ".index")


class LocalCopy(NamedTuple):
    """Vectors as .npy, and the columns beside them as .csv, if there are any."""

    vectors: Path
    annotations: Path | None
    remark: str = ""  # How the vectors differ from the model's; empty if they do not


def copy_table(address: str, table: str, column: str | None, kept_columns: Sequence[str], folder: Path) -> LocalCopy:
    """Copy a column of vectors, by default the only one, and others as text, in a read-only transaction.

    With an empty address, libpq reads its environment variables, such as PGSERVICE.
    """
    psycopg = _load_package("psycopg", "postgres")
    sql = psycopg.sql
    relation = sql.Identifier(*table.split("."))
    try:
        with _connect(psycopg, address) as connection:
            connection.read_only = True
            # Otherwise two uploads of a large table may differ in the order of their rows.
            connection.execute("set local synchronize_seqscans = off")
            types = dict(connection.execute(COLUMNS_QUERY, [relation.as_string(connection)]))
            column = _choose_column(table, column, kept_columns, types)
            vector_template = sql.SQL("{}" if types[column] == "_float8" else "{}::real[]")
            cells = [sql.SQL("{}::text").format(sql.Identifier(name)) for name in kept_columns]
            expressions = sql.SQL(", ").join([vector_template.format(sql.Identifier(column)), *cells])
            query = sql.SQL("select {} from {}").format(expressions, relation)
            with connection.cursor("isoscope_upload") as cursor:
                blocks = _fetch_blocks(cursor.execute(query, binary=True), column, kept_columns)
                return _write_copy(folder, table, kept_columns, blocks, DTYPES[types[column]])
    except psycopg.Error as error:
        problem = one_line(error.diag.message_primary or str(error))
        raise InvalidError(f"PostgreSQL could not read {table}: {problem}.") from None


def _connect(psycopg: Any, address: str) -> Any:
    """Connect; raise errors without the password, which messages of libpq repeat if it misreads a connection string."""
    try:
        parameters = psycopg.conninfo.conninfo_to_dict(address)
        # An @ there comes from a password that holds @ or /.
        is_misread = any("@" in str(parameters.get(name)) for name in ("host", "port", "dbname"))
    except psycopg.ProgrammingError:
        is_misread = True
    if is_misread:
        raise InvalidError(
            "The connection string cannot be read. Write postgresql://USER:PASSWORD@HOST:5432/DATABASE, with / and @ "
            "in a password as %2F and %40."
        )
    try:
        return psycopg.connect(address)
    except psycopg.OperationalError as error:
        raise UnavailableError(f"PostgreSQL cannot be reached: {one_line(str(error))}") from None


def _choose_column(table: str, column: str | None, kept_columns: Sequence[str], types: Mapping[str, str]) -> str:
    """Return the column of vectors, by default the only one; raise InvalidError if it or a kept column is unusable."""
    vector_columns = [name for name, type_name in types.items() if type_name in DTYPES]
    columns = listed([f"{name} ({type_name})" for name, type_name in types.items()])
    if column is None and len(vector_columns) != 1:
        raise InvalidError(f"Name the column of vectors by --column. Columns of {table} are: {columns}.")
    column = column or vector_columns[0]
    for name in (column, *kept_columns):
        if name not in types:
            raise InvalidError(f"{table} has no column {quote(name)}. Columns are: {columns}.")
    if types[column] not in DTYPES:
        raise InvalidError(
            f"{quote(column)} is of type {types[column]}. Choose a column of vector, halfvec, real[] or double "
            "precision[], or cast it in a view, such as embedding::vector."
        )
    return column


def _fetch_blocks(cursor: Any, column: str, kept_columns: Sequence[str]) -> Iterator[tuple[NDArray[Any], list[Any]]]:
    """Yield blocks of vectors [m, d] and the cells of their rows; raise InvalidError for a row without d numbers."""
    n = d = 0  # d is known from the first row, which is fetched alone
    while rows := cursor.fetchmany(max(1, MAX_BLOCK_NUMBERS // d) if d else 1):
        d = d or len(rows[0][0] or ())
        for number, (vector, *cells) in enumerate(rows, n + 1):
            is_vector = bool(vector) and not isinstance(vector[0], list)
            if not is_vector or len(vector) != d:
                row = f"Row {number:,}" + (f" ({kept_columns[0]} {cells[0]})" if cells else "")
                problem = f"has {len(vector):,} dimensions, those before it {d:,}" if is_vector else "has no vector"
                raise InvalidError(f"{row} {problem}. Correct {quote(column)}, or upload a view without such rows.")
        yield np.array([row[0] for row in rows], np.float64), [row[1:] for row in rows]
        n += len(rows)


def copy_index(path: Path, folder: Path) -> LocalCopy:
    """Copy the vectors of an index, with their ids unless they are 0, 1, 2 and so on."""
    faiss = _load_package("faiss", "decide")
    try:
        path.open("rb").close()
        file_index = faiss.read_index(str(path))
    except OSError as error:
        raise InvalidError(f"{path} cannot be read: {error.strerror}.") from error
    except RuntimeError as error:
        raise InvalidError(f"{path} is no FAISS index, is damaged, or is a binary index without vectors.") from error
    # The index inside is freed with its map, so ``file_index`` has to live until the end.
    has_id_map = isinstance(file_index, faiss.IndexIDMap)
    index = faiss.downcast_index(file_index.index) if has_id_map else file_index
    index_type = type(index).__name__
    try:
        keys = _read_keys(faiss, index)
    except RuntimeError as error:
        raise InvalidError(
            f"{path} ({index_type}) cannot give its vectors back. Upload those that it was built from."
        ) from error
    ids = faiss.vector_to_array(file_index.id_map) if has_id_map else keys
    columns = [] if np.array_equal(ids, np.arange(len(ids))) else ["id"]
    cells = ids[:, None] if columns else np.empty((len(ids), 0))
    step = max(1, MAX_BLOCK_NUMBERS // index.d)
    slices = (slice(start, start + step) for start in range(0, len(keys), step))
    blocks = ((index.reconstruct_batch(keys[rows]), cells[rows].tolist()) for rows in slices)
    copy = _write_copy(folder, path.stem, columns, blocks, np.float32)
    codes_remark = f"{path.name} stores codes ({index_type}). These are decoded vectors, not your model's own."
    return copy if "Flat" in index_type else copy._replace(remark=codes_remark)


def _read_keys(faiss: Any, index: Any) -> NDArray[np.int64]:
    """Return the keys by which an index reconstructs its vectors; raise RuntimeError or InvalidError if it cannot."""
    keys = np.arange(index.ntotal)
    inverted_file = faiss.try_extract_index_ivf(index)
    # An index that refines an inverted file keeps its own vectors, by row number.
    if inverted_file is not None and not isinstance(index, faiss.IndexRefine):
        if isinstance(faiss.downcast_index(inverted_file), faiss.IndexIVFFastScan):
            raise RuntimeError("faiss crashes on packed codes")
        lists = inverted_file.invlists
        sizes = {number: lists.list_size(number) for number in range(lists.nlist)}
        ids = [faiss.rev_swig_ptr(lists.get_ids(number), size).copy() for number, size in sizes.items() if size]
        inverted_file.set_direct_map_type(inverted_file.direct_map.Hashtable)
        keys = np.unique(np.concatenate([keys[:0], *ids]))
        if len(keys) < index.ntotal:
            raise InvalidError("Vectors of the index share an id, so not all can be read. Upload them as .npy.")
    if isinstance(index, faiss.IndexLSH):
        raise RuntimeError("signs are no vectors")
    for key in keys[:1].tolist():
        index.reconstruct(key)  # first alone, because an error in a batch ends the process
    return keys


def _load_package(name: str, extra: str) -> Any:
    """Import a package; raise UnavailableError that names the ``extra`` to install if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UnavailableError(f"{name} is not installed: pip install 'isoscope[{extra}]'") from error


def _write_copy(folder: Path, name: str, columns: Sequence[str], blocks: Iterable[Any], dtype: Any) -> LocalCopy:
    """Write blocks, each of vectors [m, d] and the cells of their rows, to files named like the store."""
    stem = re.sub(r"[^\w.-]", "_", name)
    vectors, annotations = folder / f"{stem}.npy", folder / f"{stem}.csv"
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (0, 0)}
    n = d = 0
    try:
        with vectors.open("wb") as matrix, annotations.open("w", encoding="utf-8", newline="") as table:
            npy_format.write_array_header_1_0(matrix, header)
            csv.writer(table).writerow(columns)
            for block, cells in blocks:
                matrix.write(np.ascontiguousarray(block, dtype).data)
                csv.writer(table).writerows(cells)
                n, d = n + len(block), block.shape[1]
            matrix.seek(0)  # NumPy pads the header for any number of rows
            npy_format.write_array_header_1_0(matrix, header | {"shape": (n, d)})
    except OSError as error:
        raise FullDiskError(f"{folder} cannot be written: {error.strerror}. Set TMPDIR to another disk.") from error
    if not n:
        raise InvalidError(f"{name} has no rows, so there is nothing to measure.")
    return LocalCopy(vectors, annotations if columns else None)
