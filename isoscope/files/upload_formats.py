"""The formats of uploads, each one record: what tells a file, what may be uploaded so, and what reads it.

Detection, error sentences and the lists on pages come from these records; docs/contributing/format.md adds one.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isoscope.files.contents import Contents
    from isoscope.files.table import Table
    from isoscope.files.text import Quoting

WORD2VEC_HEADER = re.compile(rb"\d{1,12} \d{1,6}\n")
CONTROL = re.compile(r"[\0-\x08\x0e-\x1f]")
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")


class Role(StrEnum):
    """What a file is uploaded as."""

    VECTORS = "vectors"
    ANNOTATIONS = "annotations"
    """Names and labels in a file of their own."""
    ROWS = "rows"
    """A data set."""
    TEXTS = "texts"


@dataclass(frozen=True)
class Format:
    """A format of uploads."""

    name: str
    """As it is stored with an embedding and told in sentences."""
    titles: tuple[str, ...]
    """What lists on pages call it."""
    suffixes: tuple[str, ...]
    """What names of files end in, the usual one first."""
    magic: Callable[[bytes, str], bool] | None = None
    """Whether the first 512 bytes prove it, given the suffix too; None for text, which only its suffix tells."""
    vectors: str = ""
    """``module:function`` that opens a file of vectors; a name, since only the sandbox loads pyarrow and h5py."""
    table: str = ""
    """``module:function`` that opens a file of names and labels, or of rows."""
    holds_rows: bool = False
    """Whether a data set may be uploaded so: the table has named columns."""

    @property
    def roles(self) -> frozenset[Role]:
        """What may be uploaded in this format."""
        return frozenset(
            role
            for role, may in {
                Role.VECTORS: self.vectors,
                Role.ANNOTATIONS: self.table,
                Role.ROWS: self.holds_rows,
                Role.TEXTS: self.holds_rows or (self.table and self.is_text),
            }.items()
            if may
        )

    @property
    def is_text(self) -> bool:
        """Whether a file is text, which may be compressed with gzip where rows or texts are read."""
        return self.magic is None

    def open_vectors(self, path: Path, quoting: "Quoting | None" = None) -> "Contents":
        """Open a file of vectors; quotes of .tsv files are read as chosen, else as they are meant."""
        opened: Contents = resolve_name(self.vectors)(path, quoting)
        return opened

    def open_table(self, path: Path, quoting: "Quoting | None" = None) -> "Table":
        """Open a file of names and labels, or of rows."""
        opened: Table = resolve_name(self.table)(path, quoting)
        return opened


def _begins(magic: bytes) -> Callable[[bytes, str], bool]:
    return lambda head, _: head.startswith(magic)


def _is_npz(head: bytes, suffix: str) -> bool:
    return head.startswith(ZIP_MAGIC) and (suffix == ".npz" or first_member(head).endswith(b".npy"))


def _is_safetensors(head: bytes, _: str) -> bool:
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32  # eight letters would be a larger number


def _is_word2vec_binary(head: bytes, _: str) -> bool:
    return WORD2VEC_HEADER.match(head) is not None and not _is_text(head)


def _is_text(head: bytes) -> bool:
    """Whether the first bytes of a file are text in UTF-8, the last character of which may be cut."""
    try:
        text = getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not CONTROL.search(text)


def first_member(head: bytes) -> bytes:
    """Return the name of the first member of a zip archive, which starts at byte 30."""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")]


FORMATS = {
    each.name: each
    for each in (
        Format(
            "npy", ("NumPy",), (".npy",), _begins(b"\x93NUMPY"),
            vectors="isoscope.files.npy:open_npy", table="isoscope.files.npy:open_table",
        ),
        Format("npz", ("NumPy",), (".npz",), _is_npz, vectors="isoscope.files.npy:open_npz"),
        Format(
            "safetensors", ("safetensors",), (".safetensors",), _is_safetensors,
            vectors="isoscope.files.safetensors:open_vectors",
        ),
        Format(
            "hdf5", ("HDF5",), (".h5", ".hdf5"), _begins(b"\x89HDF\r\n\x1a\n"),
            vectors="isoscope.files.hdf5:open_vectors",
        ),
        Format(
            "parquet", ("Parquet",), (".parquet",), _begins(b"PAR1"),
            vectors="isoscope.files.parquet:ParquetVectors", table="isoscope.files.parquet:open_table", holds_rows=True,
        ),
        Format(
            "jsonl", ("JSON lines",), (".jsonl",),
            vectors="isoscope.files.jsonl:JsonlVectors", table="isoscope.files.jsonl:open_table", holds_rows=True,
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
            "word2vec binary", ("word2vec",), (".bin",), _is_word2vec_binary,
            vectors="isoscope.files.word2vec:Word2VecBinary",
        ),
        Format("txt", ("text",), (".txt",), table="isoscope.files.table:open_lines"),
    )
}  # fmt: skip
"""By name, in the order of lists."""


def formats_of(role: Role) -> list[Format]:
    """Return the formats that a file may have which is uploaded as this."""
    return [each for each in FORMATS.values() if role in each.roles]


def suffixes(role: Role) -> list[str]:
    """Return all that names of such files end in."""
    return list(dict.fromkeys(suffix for each in formats_of(role) for suffix in each.suffixes))


def listed(role: Role) -> str:
    """Return ".npy, .npz or .csv", by what names of such files usually end in."""
    return _joined(each.suffixes[0] for each in formats_of(role))


def titles(role: Role) -> str:
    """Return "NumPy, HDF5 or csv", as lists on pages have it."""
    return _joined(title for each in formats_of(role) for title in each.titles)


def listed_rows() -> str:
    """Return ".jsonl, .csv or .tsv, gzipped or not, or .parquet": what a data set may be uploaded as."""
    texts = _joined(each.suffixes[0] for each in formats_of(Role.ROWS) if each.is_text)
    others = _joined(each.suffixes[0] for each in formats_of(Role.ROWS) if not each.is_text)
    return f"{texts}, gzipped or not, or {others}"


def _joined(names: Iterator[str]) -> str:
    *most, last = dict.fromkeys(names)
    return f"{', '.join(most)} or {last}" if most else last
