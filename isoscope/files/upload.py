"""The files of one embedding: vectors in one file or in shards, names and labels in a separate file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, prefixed_errors, quote
from isoscope.files.contents import (
    MAX_DISTINCT,
    Annotation,
    AnnotationStats,
    Block,
    Contents,
    annotation_of,
    cell_text,
    transpose_blocks,
)
from isoscope.files.table import MAX_ANNOTATIONS
from isoscope.files.text import Quoting, detect_quotes
from isoscope.files.upload_formats import Format, Role, detect

T = TypeVar("T")


@dataclass(frozen=True)
class NamedFile:
    """A file on disk and its name for the user."""

    path: Path
    filename: str


@dataclass(frozen=True)
class Upload:
    """The files of one upload."""

    vectors: tuple[NamedFile, ...]
    annotations: NamedFile | None = None


def require_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from error


def open_upload(upload: Upload, quoting: Quoting | None = None) -> tuple[Format, Contents]:
    """Open all files and check their structure; raise IsoscopeError if one does not fit the first."""
    file_format = common_format(upload.vectors)
    named_contents: list[tuple[str, Contents]] = []
    for file in upload.vectors:
        with _prefixed_errors(file, upload.vectors):
            named_contents.append((file.filename, file_format.open_vectors(file.path, quoting)))
    contents = named_contents[0][1] if len(named_contents) == 1 else Shards(named_contents)
    if (annotation_file := upload.annotations) is not None:
        contents = AnnotatedContents(contents, annotation_file.path, annotation_file.filename, quoting)
    return file_format, contents


def find_upload_quoting(upload: Upload) -> Quoting | None:
    """Return the detected quoting of the first .tsv file with quotes, None without any."""
    files = [(file.path, detect(file.path, file.filename)) for file in upload.vectors]
    if (annotations := upload.annotations) is not None:
        files.append((annotations.path, detect(annotations.path, annotations.filename, Role.ANNOTATIONS)))
    readings = (detect_quotes(path).reading for path, file_format in files if file_format.name == "tsv")
    return next(filter(None, readings), None)


def common_format(files: Sequence[NamedFile]) -> Format:
    formats = []
    for file in files:
        with _prefixed_errors(file, files):
            formats.append(detect(file.path, file.filename))
    for file, file_format in zip(files, formats, strict=True):
        if file_format is not formats[0]:
            raise InvalidError(
                f"{file.filename} is a {file_format.name} file, but {files[0].filename} is {formats[0].name}: the "
                "files of one embedding need the same format. Upload them separately.",
                "file",
            )
    return formats[0]


def check_annotations(file: NamedFile) -> None:
    with prefixed_errors(file.filename, "annotations"):
        detect(file.path, file.filename, Role.ANNOTATIONS)


def _prefixed_errors(file: NamedFile, files: Sequence[NamedFile]) -> AbstractContextManager[None]:
    return prefixed_errors(file.filename) if len(files) > 1 else nullcontext()


class Shards(Contents):
    """Several files of the same arrays or columns, read as one."""

    def __init__(self, files: list[tuple[str, Contents]]) -> None:
        (first_name, first), *other_shards = files
        for name, shard in other_shards:
            if _layout(shard) != _layout(first):
                raise InvalidError(
                    f"{name} holds {', '.join(_describe_choices(shard))}, but {first_name} holds "
                    f"{', '.join(_describe_choices(first))}: the files of one embedding need the same arrays or "
                    "columns. Upload the others separately.",
                    "file",
                )
        self._files = files
        self.n = sum(contents.n for _, contents in files)
        self.parts = [
            shard_parts[0].model_copy(update={"n": sum(part.n for part in shard_parts)})
            for shard_parts in zip(*(contents.parts for _, contents in files), strict=True)
        ]
        self.numeric_columns = first.numeric_columns
        self.real_columns = [
            column for column in first.real_columns if all(column in shard.real_columns for _, shard in files)
        ]
        annotations_by_shard = [{annotation.name: annotation for annotation in shard.annotations} for _, shard in files]
        self.annotations: list[Annotation] = []
        for name in annotations_by_shard[0]:
            if any(name not in shard_annotations for shard_annotations in annotations_by_shard):
                continue
            annotations = [shard_annotations[name] for shard_annotations in annotations_by_shard]
            n = sum(annotation.n for annotation in annotations)
            richest = max(annotations, key=lambda annotation: annotation.n_distinct)
            is_counted = richest.n_distinct <= MAX_DISTINCT
            self.annotations.append(
                annotation_of(name, n, self.values(name)) if is_counted else richest.model_copy(update={"n": n})
            )

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        if not transpose:
            return self._chain_shards(lambda contents: contents.blocks(vectors, rows, transpose=False))
        return transpose_blocks(
            lambda columns: (block[:, columns] for block in self.blocks(vectors, rows, transpose=False)),
            *self.shape(vectors),
            rows,
        )

    def values(self, annotation: str) -> Iterator[str]:
        return self._chain_shards(lambda contents: contents.values(annotation))

    def rows_of(self, annotations: Sequence[str]) -> Iterator[tuple[str, ...]]:
        return self._chain_shards(lambda contents: contents.rows_of(annotations))

    def _chain_shards(self, read: Callable[[Contents], Iterator[T]]) -> Iterator[T]:
        for name, contents in self._files:
            with prefixed_errors(name):
                yield from read(contents)


def _layout(contents: Contents) -> list[tuple[str, int, str]] | list[str]:
    return [(part.name, part.d, part.dtype) for part in contents.parts] or contents.numeric_columns


def _describe_choices(contents: Contents) -> list[str]:
    if contents.parts:
        return [f"{part.name!r} of {part.d:,} dimensions ({part.dtype})" for part in contents.parts]
    columns = contents.numeric_columns
    return [f"{len(columns):,} columns of numbers, {listed(columns)}"]


class AnnotatedContents(Contents):
    """Contents with the columns of a second file offered before their own names and labels."""

    def __init__(self, contents: Contents, path: Path, filename: str, quoting: Quoting | None = None) -> None:
        self._contents = contents
        self.n, self.parts, self.numeric_columns = contents.n, contents.parts, contents.numeric_columns
        self.real_columns = contents.real_columns
        self._filename = filename
        with prefixed_errors(filename, "annotations"):
            self._table = detect(path, filename, Role.ANNOTATIONS).open_table(path, quoting)
            columns = self._table.columns[:MAX_ANNOTATIONS]
            stats = AnnotationStats(columns)
            for row in self._table.rows(columns):
                stats.add(row)
            table_annotations = stats.annotations()
            n_rows = table_annotations[0].n
            valid_lengths = {length for part in contents.parts for length in (part.n, part.d)}
            if contents.numeric_columns:
                valid_lengths.add(contents.n)
            if n_rows not in valid_lengths:
                row_counts = " or ".join(f"{part.n:,} ({quote(part.name)})" for part in contents.parts[:3])
                first_vectors = contents.parts[0].name if contents.parts else contents.numeric_columns
                rows = row_counts if len(contents.parts) > 1 else f"{contents.shape(first_vectors)[0]:,}"
                raise InvalidError(
                    f"expected a row for each vector, {rows}, got {n_rows:,}. Check that both files are of the same "
                    "data, and that a line with the names of the columns stands above a table."
                )
        existing_names = {*contents.numeric_columns, *(annotation.name for annotation in contents.annotations)}
        self._columns = {f"{name} ({filename})" if name in existing_names else name: name for name in columns}
        renamed = [
            column.model_copy(update={"name": offered_name})
            for column, offered_name in zip(table_annotations, self._columns, strict=True)
        ]
        self.annotations = renamed + contents.annotations

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        return self._contents.blocks(vectors, rows, transpose=transpose)

    def values(self, annotation: str) -> Iterator[str]:
        if (column := self._columns.get(annotation)) is None:
            yield from self._contents.values(annotation)
            return
        with prefixed_errors(self._filename, "annotations"):
            for (value,) in self._table.rows([column]):
                yield cell_text(value)
