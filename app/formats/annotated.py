"""Names and labels that come in a file of their own, beside the vectors."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from app.formats.contents import Annotation, Block, Contents
from app.formats.detect import ANNOTATION_FORMATS, Format, detect
from app.formats.jsonl import read_jsonl
from app.formats.layout import MAX_ANNOTATIONS
from app.formats.npy import read_npy
from app.formats.quoting import Quoting
from app.formats.table_file import TableFile, read_lines, read_text_table
from app.formats.tally import Tally, cell_text
from app.formats.wording import blaming, shown
from isoscope.core.errors import InvalidError


class Annotated:
    """Vectors of some contents, with the columns of a second file offered before their own names and labels."""

    def __init__(self, contents: Contents, path: Path, filename: str, quoting: Quoting | None = None) -> None:
        self._contents = contents
        self.parts = contents.parts
        self.numeric_columns = contents.numeric_columns
        self._filename = filename
        with blaming(filename, "annotations"):
            offered, self._read = _read_annotations(path, filename, quoting)
            _require_rows(offered, contents)
        taken = {*contents.numeric_columns, *(own.name for own in contents.annotations)}
        self._original = {f"{name} ({filename})" if name in taken else name: name for name in self._read}
        renamed = [each.model_copy(update={"name": new}) for each, new in zip(offered, self._original, strict=True)]
        self.annotations = renamed + contents.annotations

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        """Rows and columns of the vectors."""
        return self._contents.shape(vectors)

    def dtype(self, vectors: str | list[str]) -> str:
        """The type of the vectors."""
        return self._contents.dtype(vectors)

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the vectors."""
        return self._contents.blocks(vectors, rows, transpose=transpose)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of a column of the second file, or of the vectors' own."""
        if (name := self._original.get(annotation)) is not None:
            return self._own(name)
        return self._contents.values(annotation)

    def _own(self, name: str) -> Iterator[str]:
        with blaming(self._filename, "annotations"):
            yield from self._read[name]()


Readers = dict[str, Callable[[], Iterator[str]]]
"""For each column a function that starts reading its values."""


def _read_annotations(path: Path, filename: str, quoting: Quoting | None) -> tuple[list[Annotation], Readers]:
    """Describe the first 64 columns of a file in order."""
    table = _open(path, detect(path, filename, ANNOTATION_FORMATS), quoting)
    places = {name: i for i, name in enumerate(table.columns[:MAX_ANNOTATIONS])}
    tally = Tally(places)
    for row in table.rows():
        tally.add(row)
    return tally.annotations(), {name: partial(_column, table, i) for name, i in places.items()}


def _column(table: TableFile, i: int) -> Iterator[str]:
    return (cell_text(row[i]) for row in table.rows())


def _open(path: Path, file_format: Format, quoting: Quoting | None) -> TableFile:
    match file_format:
        case Format.LINES:
            return read_lines(path)
        case Format.NPY:
            return _read_array(path)
        case Format.JSONL:
            return read_jsonl(path)
        case Format.PARQUET:
            # Here, not above: the web process names functions that lead here, but only its sandbox needs pyarrow.
            from app.formats.parquet import read_parquet  # noqa: PLC0415

            return read_parquet(path)
    return read_text_table(path, file_format, quoting)


def _read_array(path: Path) -> TableFile:
    (array,) = read_npy(path)
    if not array.is_annotation:
        raise InvalidError(
            "expected an array of one dimension, of text or whole numbers, with a value for each row of the vectors: "
            'save it with numpy.save("labels.npy", numpy.array(labels)).'
        )
    return TableFile([array.name], lambda: ((value,) for value in array.values()))


def _require_rows(offered: list[Annotation], contents: Contents) -> None:
    """Refuse a file that has another number of rows than any matrix that the vectors could make."""
    found = offered[0].n
    fitting = {length for part in contents.parts for length in (part.n, part.d)}
    if contents.numeric_columns:
        fitting.add(contents.shape(contents.numeric_columns)[0])
    if found not in fitting:
        several = " or ".join(f"{part.n:,} ({shown(part.name)})" for part in contents.parts[:3])
        only = contents.parts[0].name if contents.parts else contents.numeric_columns
        rows = several if len(contents.parts) > 1 else f"{contents.shape(only)[0]:,}"
        raise InvalidError(
            f"expected a row for each vector, {rows}, got {found:,}. Check that both files are of the same data, and "
            "that a line with the names of the columns stands above a table."
        )
