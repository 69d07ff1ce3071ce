"""Which format a file has: by its first bytes, and by its name only where text has no first bytes to tell."""

import re
from codecs import getincrementaldecoder
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from app.formats.gzipped import SUFFIX, is_gzipped, open_unpacked
from isoscope.core.errors import InvalidError, UnsupportedFormatError


class Format(StrEnum):
    """The formats that are read."""

    NPY = "npy"
    NPZ = "npz"
    SAFETENSORS = "safetensors"
    HDF5 = "hdf5"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    JSONL = "jsonl"
    WORD2VEC = "word2vec"
    WORD2VEC_BINARY = "word2vec binary"
    LINES = "txt"


SUFFIXES = {
    Format.NPY: (".npy",),
    Format.NPZ: (".npz",),
    Format.SAFETENSORS: (".safetensors",),
    Format.HDF5: (".h5", ".hdf5"),
    Format.CSV: (".csv",),
    Format.TSV: (".tsv",),
    Format.PARQUET: (".parquet",),
    Format.JSONL: (".jsonl",),
    Format.WORD2VEC: (".vec", ".txt", ".w2v", ".glove"),
    Format.WORD2VEC_BINARY: (".bin",),
    Format.LINES: (".txt",),
}
"""What the names of files end in, the usual one first."""

EMBEDDING_FORMATS = (
    Format.NPY, Format.NPZ, Format.SAFETENSORS, Format.HDF5, Format.PARQUET, Format.JSONL, Format.CSV, Format.TSV,
    Format.WORD2VEC, Format.WORD2VEC_BINARY,
)  # fmt: skip
ANNOTATION_FORMATS = (Format.CSV, Format.TSV, Format.JSONL, Format.PARQUET, Format.NPY, Format.LINES)
TABLE_FORMATS = (Format.TSV, Format.CSV, Format.PARQUET, Format.JSONL)
TEXTS_FORMATS = (Format.LINES, *TABLE_FORMATS)
TEXT_FORMATS = (Format.CSV, Format.TSV, Format.JSONL, Format.WORD2VEC, Format.LINES)

HEAD_BYTES = 512
WORD2VEC_HEADER = re.compile(rb"\d{1,12} \d{1,6}\n")
CONTROL = re.compile(r"[\0-\x08\x0e-\x1f]")
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
OTHER_KINDS = (
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


def detect(
    path: Path, filename: str, accepted: Collection[Format] = EMBEDDING_FORMATS, *, unpack: bool = False
) -> Format:
    """Return the format of the file. Reads its first bytes only, so that the web process may call it.

    With ``unpack``, of text that is compressed with gzip, as in x.csv.gz, it is the format of the text.

    Raises:
        InvalidError: the file is empty, or is not what its name says.
        UnsupportedFormatError: it is something else than the formats ``accepted``.

    """
    unpack = unpack and is_gzipped(path)
    with open_unpacked(path) if unpack else path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        raise InvalidError("The file is empty: 0 bytes. Choose a file that holds data.")
    name = filename.lower()
    suffix = Path(name.removesuffix(SUFFIX) if unpack else name).suffix
    found = _by_content(head, suffix) or _by_name(suffix, accepted)
    if found not in accepted:
        raise UnsupportedFormatError(f"Expected {listed(accepted)}, got a {found} file: convert it to one of these.")
    if unpack and found not in TEXT_FORMATS:
        raise UnsupportedFormatError(f"The file is {found} compressed with gzip, which only text may be: unpack it.")
    return found


def _by_content(head: bytes, suffix: str) -> Format | None:
    """Return the format that the first bytes prove; refuse what they prove to be something else."""
    if head.startswith(b"\x93NUMPY"):
        return Format.NPY
    if head.startswith(b"PAR1"):
        return Format.PARQUET
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return Format.HDF5
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32:  # eight letters would be a larger number
        return Format.SAFETENSORS
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive(head, suffix)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        raise UnsupportedFormatError(TORCH_ADVICE if suffix in TORCH_SUFFIXES else PICKLE_ADVICE)
    for magic, what, advice in OTHER_KINDS:
        if head.startswith(magic):
            raise UnsupportedFormatError(f"The file is {what}, which is not read here: {advice}.")
    return Format.WORD2VEC_BINARY if WORD2VEC_HEADER.match(head) and not _is_text(head) else None


def _is_text(head: bytes) -> bool:
    """Whether the first bytes of a file are text in UTF-8, the last character of which may be cut."""
    try:
        text = getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not CONTROL.search(text)


def _archive(head: bytes, suffix: str) -> Format:
    """Tell archives apart by the name of their first member, which starts at byte 30."""
    first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if first.endswith(b".npy") or suffix == ".npz":
        return Format.NPZ
    if suffix in TORCH_SUFFIXES or first.endswith(b"data.pkl"):
        raise UnsupportedFormatError(TORCH_ADVICE)
    if first in {b"[Content_Types].xml", b"mimetype"} or first.startswith((b"xl/", b"_rels/")):
        raise UnsupportedFormatError("The file is an Office document, which is not read here: save the sheet as csv.")
    raise UnsupportedFormatError("The file is a zip archive, which is not read here: unpack it and upload one file.")


def _by_name(suffix: str, accepted: Collection[Format]) -> Format:
    """Return the text format that the name says; the binary formats would have been known by their first bytes."""
    if suffix in TORCH_SUFFIXES:
        raise UnsupportedFormatError(BIN_ADVICE if suffix == ".bin" else TORCH_ADVICE)
    if suffix in {".pkl", ".pickle", ".joblib"}:
        raise UnsupportedFormatError(PICKLE_ADVICE)
    named: Format | None = next((each for each in (*accepted, *Format) if suffix in SUFFIXES[each]), None)
    if suffix == ".json" or (suffix == ".txt" and named not in accepted):
        advice = "write one object a line and name it .jsonl" if suffix == ".json" else "name a table .csv or .tsv"
        raise UnsupportedFormatError(f"Expected {listed(accepted)}, got a {suffix} file: {advice}.")
    if named is None:
        raise UnsupportedFormatError(
            f"Expected {listed(accepted)}, got a file whose name ends in {suffix[:20]!r} and whose first bytes are of "
            "none of these: convert it, or name it by what it is."
        )
    if named not in TEXT_FORMATS:
        raise InvalidError(
            f"The file is named {suffix}, but its first bytes are not those of a {named} file: "
            "it is something else, or was damaged on the way. Write it again."
        )
    return named


def suffixes(formats: Collection[Format]) -> list[str]:
    """Return all that the names of these formats end in."""
    return list(dict.fromkeys(suffix for each in formats for suffix in SUFFIXES[each]))


def listed(formats: Collection[Format]) -> str:
    """Return ".npy, .npz or .csv", by what the names of files usually end in."""
    *most, last = (SUFFIXES[each][0] for each in formats)
    return f"{', '.join(most)} or {last}"
