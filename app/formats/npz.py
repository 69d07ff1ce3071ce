"""A zip archive of npy arrays: its directory first, then every array's header, and no values."""

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import FileIO
from pathlib import Path
from typing import IO, cast

from app.formats.arrays import StoredArray
from app.formats.expansion import require_honest
from app.formats.npy import read_header
from isoscope.core.errors import InvalidError, TooLargeError

MAX_DIRECTORY_BYTES = 2**20
MAX_MEMBERS = 1000
ENCRYPTED = 0x1
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

UNSAFE_NAME = re.compile(r"^/|\\|:|(^|/)\.\.(/|$)")
"""Nothing is unpacked here, but a name like this was made to write elsewhere."""

# What zipfile says to archives that are damaged or were never made by numpy.
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError,
    OverflowError,
)  # fmt: skip


class _Reader(FileIO):
    """A file whose directory is read only if it has an honest length: zipfile believes what the archive declares."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its directory is longer than {MAX_DIRECTORY_BYTES:,} bytes")
        return super().read(size) or b""


def read_npz(path: Path) -> list[StoredArray]:
    """Return the arrays of an archive, each by the name it was saved under."""
    try:
        with _Reader(path) as file, zipfile.ZipFile(cast("IO[bytes]", file)) as archive:
            members = archive.infolist()
            _check_directory(members)
            return [_read_member(path, archive, member) for member in members]
    except ZIP_ERRORS as error:
        raise InvalidError(
            f"The npz archive cannot be read ({str(error)[:120]}): it was cut off, altered, or not written by "
            "numpy.savez. Write or upload it again."
        ) from None


def _check_directory(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise TooLargeError(
            f"The archive has {len(members):,} members, more than {MAX_MEMBERS:,}: save the arrays you want measured."
        )
    if len({member.filename for member in members}) < len(members):
        raise InvalidError("Two members of the archive have the same name: write it again with numpy.savez.")
    for member in members:
        _check_member(member)
    held = sum(member.compress_size for member in members)
    require_honest("The archive", sum(member.file_size for member in members), held)


def _check_member(member: zipfile.ZipInfo) -> None:
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
    require_honest(f"The member {name!r}", member.file_size, member.compress_size)


def _read_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> StoredArray:
    name = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        array = read_header(stream, name, partial(_open_member, path, member.filename))
    array.require_size(member.file_size - array.offset)
    return array


@contextmanager
def _open_member(path: Path, filename: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive, archive.open(filename) as stream:
        yield stream
