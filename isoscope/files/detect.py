"""Which format a file has: by its first bytes, and by its name only where text has no first bytes to tell."""

from pathlib import Path

from isoscope.core.errors import InvalidError, UnsupportedFormatError
from isoscope.files.compressed import GZIP_SUFFIX, is_gzipped, open_unpacked
from isoscope.files.upload_formats import FORMATS, ZIP_MAGIC, Format, Role, first_member, formats_of, listed

HEAD_BYTES = 512
UNPACKED = {Role.ROWS, Role.TEXTS}
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


def detect(path: Path, filename: str, role: Role = Role.VECTORS) -> Format:
    """Return the format of a file that is uploaded as this. Reads its first bytes only: the web process may call it.

    Of rows or texts that are compressed with gzip, as in x.csv.gz, it is the format of what unpacks.

    Raises:
        InvalidError: the file is empty, or is not what its name says.
        UnsupportedFormatError: it is something else than a format of such files.

    """
    unpack = role in UNPACKED and is_gzipped(path)
    with open_unpacked(path) if unpack else path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        raise InvalidError("The file is empty: 0 bytes. Choose a file that holds data.")
    name = filename.lower()
    suffix = Path(name.removesuffix(GZIP_SUFFIX) if unpack else name).suffix
    found = _by_content(head, suffix) or _by_name(suffix, role)
    if role not in found.roles:
        raise UnsupportedFormatError(f"Expected {listed(role)}, got a {found.name} file: convert it to one of these.")
    if unpack and not found.is_text:
        raise UnsupportedFormatError(
            f"The file is {found.name} compressed with gzip, which only text may be: unpack it."
        )
    return found


def _by_content(head: bytes, suffix: str) -> Format | None:
    """Return the format that the first bytes prove; refuse what they prove to be something else."""
    if found := next((each for each in FORMATS.values() if each.magic and each.magic(head, suffix)), None):
        return found
    if head.startswith(ZIP_MAGIC):
        raise UnsupportedFormatError(_why_no_archive(first_member(head), suffix))
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        raise UnsupportedFormatError(TORCH_ADVICE if suffix in TORCH_SUFFIXES else PICKLE_ADVICE)
    for magic, what, advice in OTHER_KINDS:
        if head.startswith(magic):
            raise UnsupportedFormatError(f"The file is {what}, which is not read here: {advice}.")
    return None


def _why_no_archive(first: bytes, suffix: str) -> str:
    """Tell archives apart by the name of their first member."""
    if suffix in TORCH_SUFFIXES or first.endswith(b"data.pkl"):
        return TORCH_ADVICE
    if first in {b"[Content_Types].xml", b"mimetype"} or first.startswith((b"xl/", b"_rels/")):
        return "The file is an Office document, which is not read here: save the sheet as csv."
    return "The file is a zip archive, which is not read here: unpack it and upload one file."


def _by_name(suffix: str, role: Role) -> Format:
    """Return the text format that the name says; the binary formats would have been known by their first bytes."""
    if suffix in TORCH_SUFFIXES:
        raise UnsupportedFormatError(BIN_ADVICE if suffix == ".bin" else TORCH_ADVICE)
    if suffix in {".pkl", ".pickle", ".joblib"}:
        raise UnsupportedFormatError(PICKLE_ADVICE)
    accepted = formats_of(role)
    named = next((each for each in (*accepted, *FORMATS.values()) if suffix in each.suffixes), None)
    if suffix == ".json" or (suffix == ".txt" and named not in accepted):
        advice = "write one object a line and name it .jsonl" if suffix == ".json" else "name a table .csv or .tsv"
        raise UnsupportedFormatError(f"Expected {listed(role)}, got a {suffix} file: {advice}.")
    if named is None:
        raise UnsupportedFormatError(
            f"Expected {listed(role)}, got a file whose name ends in {suffix[:20]!r} and whose first bytes are of "
            "none of these: convert it, or name it by what it is."
        )
    if not named.is_text:
        raise InvalidError(
            f"The file is named {suffix}, but its first bytes are not those of a {named.name} file: "
            "it is something else, or was damaged on the way. Write it again."
        )
    return named
