"""The formats of uploads, one record each: what identifies a file, its roles, and what reads it.

Detection, error sentences and the lists on pages come from these records; docs/contributing/format.md adds one.
Binary formats are detected by their first bytes, text by the name of the file.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from isoscope.core.errors import InvalidError, UnsupportedFormatError
from isoscope.files.compressed import GZIP_SUFFIX, is_gzipped, open_unpacked
from isoscope.stores import FAISS_SUFFIXES

if TYPE_CHECKING:
    from isoscope.files.contents import Contents
    from isoscope.files.table import Table
    from isoscope.files.text import Quoting

WORD2VEC_HEADER = re.compile(rb"\d{1,12} \d{1,6}\n")
CONTROL = re.compile(r"[\0-\x08\x0e-\x1f]")
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
HEAD_BYTES = 512
TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
CONVERSION = (
    "import torch, safetensors.torch\n"
    'x = torch.load("file.pt", weights_only=True, map_location="cpu")\n'
    'x = {"embeddings": x} if torch.is_tensor(x) else {k: v for k, v in x.items() if torch.is_tensor(v)}\n'
    'safetensors.torch.save_file({k: v.detach().contiguous().clone() for k, v in x.items()}, "file.safetensors")'
)
TORCH_ADVICE = (
    "This is a pickled PyTorch file. Loading one can run any program hidden in it, so it is never read here. "
    f"Expected safetensors; these lines convert it:\n{CONVERSION}"
)
BIN_ADVICE = (
    "The file is named .bin, but is neither a word2vec binary file (a line of two counts, then words) nor safetensors. "
    f"If PyTorch wrote it, these lines convert it to safetensors:\n{CONVERSION}"
)
PICKLE_ADVICE = (
    "This is a Python pickle. Loading one can run any program hidden in it, so it is never read here. Load it "
    'where you made it and write the numbers with numpy.save("file.npy", array).'
)
KNOWN_UNSUPPORTED = (
    (b"\x1f\x8b", "compressed with gzip", "unpack it with gunzip"),
    (b"BZh", "compressed with bzip2", "unpack it with bunzip2"),
    (b"\xfd7zXZ\0", "compressed with xz", "unpack it with unxz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it with unzstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    (b"Rar!", "a RAR archive", "unpack it"),
    (b"\xd0\xcf\x11\xe0", "an old Office document", "save the sheet as csv"),
    (b"%PDF", "a PDF", "export the table as csv"),
    (b"\x89PNG", "a PNG image", "upload the embeddings of the images"),
    (b"\xff\xd8\xff", "a JPEG image", "upload the embeddings of the images"),
    (b"GIF8", "a GIF image", "upload the embeddings of the images"),
    (b"SQLite format 3\0", "an SQLite database", "export the table as csv"),
    (b"ARROW1", "an Arrow file", "write it as csv or as npy"),
    (b"GGUF", "a GGUF model", "upload embeddings, not the model"),
    (b"MATLAB 5.0", "a MATLAB file", "write the matrix as csv"),
    (b"\x7fELF", "a program", "choose the file that the program wrote"),
    (b"\xff\xfe", "text in UTF-16", "save it as UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "save it as UTF-8"),
)


class Role(StrEnum):
    """The purpose of an uploaded file."""

    VECTORS = "vectors"
    ANNOTATIONS = "annotations"
    ROWS = "rows"
    TEXTS = "texts"


@dataclass(frozen=True)
class Format:
    """A format of uploads."""

    name: str
    titles: tuple[str, ...]
    # The usual one first.
    suffixes: tuple[str, ...]
    # Tests the first 512 bytes and the suffix; None for text, which only its suffix tells.
    magic: Callable[[bytes, str], bool] | None = None
    # Openers as ``module:function``, imported late so that only the sandbox loads pyarrow and h5py; empty for none.
    vectors: str = ""
    table: str = ""
    holds_rows: bool = False

    @property
    def roles(self) -> frozenset[Role]:
        return frozenset(
            role
            for role, is_supported in {
                Role.VECTORS: self.vectors,
                Role.ANNOTATIONS: self.table,
                Role.ROWS: self.holds_rows,
                Role.TEXTS: self.holds_rows or (self.table and self.is_text),
            }.items()
            if is_supported
        )

    @property
    def is_text(self) -> bool:
        return self.magic is None

    def open_vectors(self, path: Path, quoting: "Quoting | None" = None) -> "Contents":
        contents: Contents = resolve_name(self.vectors)(path, quoting)
        return contents

    def open_table(self, path: Path, quoting: "Quoting | None" = None) -> "Table":
        table: Table = resolve_name(self.table)(path, quoting)
        return table


def _is_text(head: bytes) -> bool:
    """Return whether bytes are UTF-8 text; the last character may be incomplete."""
    try:
        text = getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not CONTROL.search(text)


def first_zip_member_name(head: bytes) -> bytes:
    # A local file header is 30 bytes, with the length of the name at 26, then the name.
    return head[30 : 30 + int.from_bytes(head[26:28], "little")]


FORMATS = {
    record.name: record
    for record in (
        Format(
            "npy", ("NumPy",), (".npy",), lambda head, _: head.startswith(b"\x93NUMPY"),
            vectors="isoscope.files.npy:open_npy", table="isoscope.files.npy:open_table",
        ),
        Format(
            "npz", ("NumPy",), (".npz",),
            lambda head, suffix: head.startswith(ZIP_MAGIC)
            and (suffix == ".npz" or first_zip_member_name(head).endswith(b".npy")),
            vectors="isoscope.files.npy:open_npz",
        ),
        Format(
            "safetensors", ("safetensors",), (".safetensors",),
            # Eight letters would read as a larger number.
            lambda head, _: head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32,
            vectors="isoscope.files.safetensors:open_vectors",
        ),
        Format(
            "hdf5", ("HDF5",), (".h5", ".hdf5"), lambda head, _: head.startswith(b"\x89HDF\r\n\x1a\n"),
            vectors="isoscope.files.hdf5:open_vectors",
        ),
        Format(
            "parquet", ("Parquet",), (".parquet",), lambda head, _: head.startswith(b"PAR1"),
            vectors="isoscope.files.parquet:open_vectors", table="isoscope.files.parquet:open_table", holds_rows=True,
        ),
        Format(
            "jsonl", ("JSON lines",), (".jsonl",),
            vectors="isoscope.files.jsonl:open_vectors", table="isoscope.files.jsonl:open_table", holds_rows=True,
        ),
        Format(
            "csv", ("csv",), (".csv",),
            vectors="isoscope.files.delimited:open_csv", table="isoscope.files.delimited:open_csv_table",
            holds_rows=True,
        ),
        Format(
            "tsv", ("tsv",), (".tsv",),
            vectors="isoscope.files.delimited:open_tsv", table="isoscope.files.delimited:open_tsv_table",
            holds_rows=True,
        ),
        Format(
            "word2vec", ("word2vec", "GloVe"), (".vec", ".txt", ".w2v", ".glove"),
            vectors="isoscope.files.word2vec:Word2VecText",
        ),
        Format(
            "word2vec binary", ("word2vec",), (".bin",),
            lambda head, _: WORD2VEC_HEADER.match(head) is not None and not _is_text(head),
            vectors="isoscope.files.word2vec:Word2VecBinary",
        ),
        Format("txt", ("text",), (".txt",), table="isoscope.files.table:open_lines"),
    )
}  # fmt: skip


def formats_of(role: Role) -> list[Format]:
    return [record for record in FORMATS.values() if role in record.roles]


def suffixes(role: Role) -> list[str]:
    return list(dict.fromkeys(suffix for record in formats_of(role) for suffix in record.suffixes))


def usual_suffixes(role: Role) -> str:
    """Return the usual suffix of each format, such as ".npy, .npz or .csv"."""
    return _join_with_or(record.suffixes[0] for record in formats_of(role))


def titles(role: Role) -> str:
    return _join_with_or(title for record in formats_of(role) for title in record.titles)


def row_suffixes() -> str:
    """Return ".jsonl, .csv or .tsv, gzipped or not, or .parquet"."""
    texts = _join_with_or(record.suffixes[0] for record in formats_of(Role.ROWS) if record.is_text)
    binaries = _join_with_or(record.suffixes[0] for record in formats_of(Role.ROWS) if not record.is_text)
    return f"{texts}, gzipped or not, or {binaries}"


def _join_with_or(names: Iterator[str]) -> str:
    *first_names, last = dict.fromkeys(names)
    return f"{', '.join(first_names)} or {last}" if first_names else last


GZIP_ROLES = {Role.ROWS, Role.TEXTS}


def detect(path: Path, filename: str, role: Role = Role.VECTORS) -> Format:
    """Detect the format of a file in this role by its first bytes and name; safe in the web process.

    For gzipped rows or texts, such as x.csv.gz, returns the format of the content. Raises UnsupportedFormatError.
    """
    unpack = role in GZIP_ROLES and is_gzipped(path)
    with open_unpacked(path) if unpack else path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        raise InvalidError("The file is empty: 0 bytes. Choose a file that holds data.")
    name = filename.lower()
    suffix = Path(name.removesuffix(GZIP_SUFFIX) if unpack else name).suffix
    file_format = _detect_by_content(head, suffix) or _detect_by_name(suffix, role)
    if role not in file_format.roles:
        raise UnsupportedFormatError(
            f"Expected {usual_suffixes(role)}, got a {file_format.name} file: convert it to one of these."
        )
    if unpack and not file_format.is_text:
        raise UnsupportedFormatError(
            f"The file is {file_format.name} compressed with gzip, which only text may be: unpack it."
        )
    return file_format


def _detect_by_content(head: bytes, suffix: str) -> Format | None:
    if matched := next((record for record in FORMATS.values() if record.magic and record.magic(head, suffix)), None):
        return matched
    if head.startswith(ZIP_MAGIC):
        member_name = first_zip_member_name(head)
        if suffix in TORCH_SUFFIXES or member_name.endswith(b"data.pkl"):
            raise UnsupportedFormatError(TORCH_ADVICE)
        if member_name in {b"[Content_Types].xml", b"mimetype"} or member_name.startswith((b"xl/", b"_rels/")):
            raise UnsupportedFormatError(
                "The file is an Office document, which is not read here: save the sheet as csv."
            )
        raise UnsupportedFormatError(
            "The file is a zip archive, which is not read here: unpack it and upload one file."
        )
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        raise UnsupportedFormatError(TORCH_ADVICE if suffix in TORCH_SUFFIXES else PICKLE_ADVICE)
    for magic, kind, advice in KNOWN_UNSUPPORTED:
        if head.startswith(magic):
            raise UnsupportedFormatError(f"The file is {kind}, which is not read here: {advice}.")
    return None


def _detect_by_name(suffix: str, role: Role) -> Format:
    if suffix in TORCH_SUFFIXES:
        raise UnsupportedFormatError(BIN_ADVICE if suffix == ".bin" else TORCH_ADVICE)
    if suffix in {".pkl", ".pickle", ".joblib"}:
        raise UnsupportedFormatError(PICKLE_ADVICE)
    if suffix in FAISS_SUFFIXES:
        raise UnsupportedFormatError("A FAISS index is read only by the command isoscope upload, and alone.")
    accepted = formats_of(role)
    file_format = next((record for record in (*accepted, *FORMATS.values()) if suffix in record.suffixes), None)
    if suffix == ".json" or (suffix == ".txt" and file_format not in accepted):
        advice = "write one object a line and name it .jsonl" if suffix == ".json" else "name a table .csv or .tsv"
        raise UnsupportedFormatError(f"Expected {usual_suffixes(role)}, got a {suffix} file: {advice}.")
    if file_format is None:
        raise UnsupportedFormatError(
            f"Expected {usual_suffixes(role)}, got a file whose name ends in {suffix[:20]!r} and whose first bytes are "
            "of none of these: convert it, or name it by what it is."
        )
    if not file_format.is_text:
        raise InvalidError(
            f"The file is named {suffix}, but its first bytes are not those of a {file_format.name} file: "
            "it is something else, or was damaged on the way. Write it again."
        )
    return file_format
