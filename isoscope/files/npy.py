"""NumPy's files: one array in .npy, several in .npz. Only headers are read here."""

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO

from numpy.lib import format as npy_format

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files.arrays import ArrayFile, Opener, StoredArray
from isoscope.files.compressed import COMPRESSIONS, ENCRYPTED, open_zip, reading_zip, require_plausible_size
from isoscope.files.table import ColumnTable, Table
from isoscope.files.text import Quoting

MAX_HEADER_BYTES = 10_000
# Maximum size of the magic, version and header length.
PREAMBLE_BYTES = 12
MAX_DIMENSIONS = 32
MAX_LENGTH = 2**63 - 1
MAX_MEMBERS = 1000
VERSIONS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
    (3, 0): npy_format.read_array_header_2_0,  # they differ in the names of records, which are not read here
}

# Nothing is unpacked here, but such a name was crafted to write outside the target folder.
UNSAFE_NAME = re.compile(r"^/|\\|:|(^|/)\.\.(/|$)")

BROKEN_NPZ = (
    "The npz archive cannot be read ({reason}): it was cut off, altered, or not written by numpy.savez. Write or "
    "upload it again."
)


def open_npy(path: Path, _: Quoting | None = None) -> ArrayFile:
    return ArrayFile(read_npy(path))


def open_npz(path: Path, _: Quoting | None = None) -> ArrayFile:
    return ArrayFile(read_npz(path))


def open_table(path: Path, _: Quoting | None = None) -> Table:
    (array,) = read_npy(path)
    if not array.is_annotation:
        raise InvalidError(
            "expected an array of one dimension, of text or whole numbers, with a value for each row of the vectors: "
            'save it with numpy.save("labels.npy", numpy.array(labels)).'
        )
    return ColumnTable(array.name, array.values)


def read_npy(path: Path) -> list[StoredArray]:
    with path.open("rb") as stream:
        array = _read_header(stream, "array", lambda: path.open("rb"))
    array.require_size(path.stat().st_size - array.offset)
    return [array]


def read_npz(path: Path) -> list[StoredArray]:
    with open_zip(path, BROKEN_NPZ) as archive, reading_zip(BROKEN_NPZ):
        members = archive.infolist()
        _check_directory(members)
        arrays = []
        for member in members:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                array = _read_header(stream, name, partial(_open_member, path, member.filename))
            array.require_size(member.file_size - array.offset)
            arrays.append(array)
        return arrays


def _read_header(stream: IO[bytes], name: str, open_: Opener) -> StoredArray:
    """Read the header at the start of an npy stream and return its array, without reading values."""
    head = BytesIO(stream.read(PREAMBLE_BYTES + MAX_HEADER_BYTES))  # numpy reads whatever length is declared
    try:
        version = npy_format.read_magic(head)
        if version not in VERSIONS:
            raise _header_error(name, "its version is none of 1.0, 2.0 and 3.0")
        shape, fortran, dtype = VERSIONS[version](head, max_header_size=MAX_HEADER_BYTES)
    except InvalidError:
        raise
    except Exception:  # noqa: BLE001 -- a hostile header can raise any error of numpy's parsers
        raise _header_error(name, "it is not one that NumPy writes") from None
    if len(shape) > MAX_DIMENSIONS or not all(type(length) is int and 0 <= length <= MAX_LENGTH for length in shape):
        raise _header_error(name, f"its shape is not a tuple of at most {MAX_DIMENSIONS} lengths")
    if dtype.names is not None:
        raise InvalidError(
            f"The array {name!r} holds records, expected plain numbers: save one array for each field, "
            "e.g. numpy.save(\"file.npy\", records['vector'])."
        )
    if dtype.hasobject:
        raise InvalidError(
            f"The array {name!r} holds Python objects (dtype object), which numpy pickles and which are never loaded "
            "here: save numbers, e.g. numpy.stack(rows).astype('float32'), and names as numpy.array(names, dtype='U')."
        )
    if dtype.subdtype is not None:
        raise _header_error(name, f"its descr {str(dtype)[:80]!r} is no type of single values")
    return StoredArray(name, shape, dtype, dtype.name, fortran and len(shape) > 1, head.tell(), open_)


def _header_error(name: str, problem: str) -> InvalidError:
    return InvalidError(
        f"The header of the npy array {name!r} cannot be read: {problem}. The file was cut off, altered, or is "
        'something else: write it again with numpy.save("file.npy", array).'
    )


def _check_directory(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise TooLargeError(
            f"The archive has {len(members):,} members, more than {MAX_MEMBERS:,}: save the arrays you want measured."
        )
    if len({member.filename for member in members}) < len(members):
        raise InvalidError("Two members of the archive have the same name: write it again with numpy.savez.")
    for member in members:
        name = member.filename[:80]
        if member.flag_bits & ENCRYPTED:
            raise InvalidError(f"The member {name!r} is encrypted: write the archive without a password.")
        if UNSAFE_NAME.search(member.filename):
            raise InvalidError(
                f"The member {name!r} is named as a path out of a folder, which no array is: "
                "write the archive with numpy.savez."
            )
        if not member.filename.endswith(".npy"):
            raise InvalidError(f"Expected only .npy members, found {name!r}: write the archive with numpy.savez.")
        if member.compress_type not in COMPRESSIONS:
            raise InvalidError(
                f"The member {name!r} is compressed by a method that numpy does not use: "
                "write the archive with numpy.savez or numpy.savez_compressed."
            )
        require_plausible_size(f"The member {name!r}", member.file_size, member.compress_size)
    compressed_bytes = sum(member.compress_size for member in members)
    require_plausible_size("The archive", sum(member.file_size for member in members), compressed_bytes)


@contextmanager
def _open_member(path: Path, filename: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(filename) as stream:
        yield stream
