"""The files of one embedding: its vectors in one file or in shards, names and labels in a file of their own."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from app.formats.annotated import Annotated
from app.formats.array_file import ArrayFile
from app.formats.contents import Contents
from app.formats.delimited import DelimitedFile
from app.formats.detect import ANNOTATION_FORMATS, Format, detect
from app.formats.jsonl_vectors import JsonlVectors
from app.formats.npy import read_npy
from app.formats.npz import read_npz
from app.formats.quoting import Quoting
from app.formats.safetensors import read_safetensors
from app.formats.shards import Shards
from app.formats.text import tsv_quoting
from app.formats.word2vec import Word2VecText
from app.formats.word2vec_binary import Word2VecBinary
from app.formats.wording import blaming
from isoscope.core.errors import InvalidError


@dataclass(frozen=True)
class NamedFile:
    """Bytes on disk, and what the user calls them."""

    path: Path
    filename: str


@dataclass(frozen=True)
class Upload:
    """What was uploaded together."""

    vectors: tuple[NamedFile, ...]
    """In the order of their rows; at least one."""
    annotations: NamedFile | None = None


def _open_parquet(path: Path) -> Contents:
    # Here, not above: the web process names functions of this module, but only the sandbox and workers need pyarrow.
    from app.formats.parquet_vectors import ParquetVectors  # noqa: PLC0415

    return ParquetVectors(path)


def _open_hdf5(path: Path) -> Contents:
    from app.formats.hdf5 import read_hdf5  # noqa: PLC0415 -- as above, h5py

    return ArrayFile(read_hdf5(path))


READERS: dict[Format, Callable[[Path, Quoting | None], Contents]] = {
    Format.NPY: lambda path, _: ArrayFile(read_npy(path)),
    Format.NPZ: lambda path, _: ArrayFile(read_npz(path)),
    Format.SAFETENSORS: lambda path, _: ArrayFile(read_safetensors(path)),
    Format.HDF5: lambda path, _: _open_hdf5(path),
    Format.PARQUET: lambda path, _: _open_parquet(path),
    Format.JSONL: lambda path, _: JsonlVectors(path),
    Format.CSV: lambda path, _: DelimitedFile(path, Format.CSV),
    Format.TSV: lambda path, quoting: DelimitedFile(path, Format.TSV, quoting),
    Format.WORD2VEC: lambda path, _: Word2VecText(path),
    Format.WORD2VEC_BINARY: lambda path, _: Word2VecBinary(path),
}


def open_upload(upload: Upload, quoting: Quoting | None = None) -> tuple[Format, Contents]:
    """Open all files and check their structure; the quotes of .tsv files are read as chosen, else as they are meant.

    Raises:
        IsoscopeError: a file cannot be read, or does not fit to the first.

    """
    file_format = common_format(upload.vectors)
    opened: list[tuple[str, Contents]] = []
    for file in upload.vectors:
        with _blaming(file, upload.vectors):
            opened.append((file.filename, READERS[file_format](file.path, quoting)))
    contents = opened[0][1] if len(opened) == 1 else Shards(opened)
    if (second := upload.annotations) is not None:
        contents = Annotated(contents, second.path, second.filename, quoting)
    return file_format, contents


def find_upload_quoting(upload: Upload) -> Quoting | None:
    """Return how the first .tsv file with quotes means them; None where no file has such."""
    files = [(file.path, detect(file.path, file.filename)) for file in upload.vectors]
    if (second := upload.annotations) is not None:
        files.append((second.path, detect(second.path, second.filename, ANNOTATION_FORMATS)))
    found = (tsv_quoting(path) for path, file_format in files if file_format is Format.TSV)
    return next(filter(None, found), None)


def common_format(files: Sequence[NamedFile]) -> Format:
    """Return the format of all files, by their first bytes and names only."""
    formats = []
    for file in files:
        with _blaming(file, files):
            formats.append(detect(file.path, file.filename))
    for file, found in zip(files, formats, strict=True):
        if found is not formats[0]:
            raise InvalidError(
                f"{file.filename} is a {found} file, but {files[0].filename} is {formats[0]}: the files of one "
                "embedding need the same format. Upload them apart.",
                "file",
            )
    return formats[0]


def check_annotations(file: NamedFile) -> None:
    """Refuse what cannot be a file of names and labels, by its first bytes and name only."""
    with blaming(file.filename, "annotations"):
        detect(file.path, file.filename, ANNOTATION_FORMATS)


def _blaming(file: NamedFile, files: Sequence[NamedFile]) -> AbstractContextManager[None]:
    """Say in an error which file it is about, if there are several."""
    return blaming(file.filename) if len(files) > 1 else nullcontext()
