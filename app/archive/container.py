"""The zip file around an archive from outside: its directory is checked before a byte of it is unpacked."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from io import FileIO
from pathlib import Path
from typing import IO, cast

from app.archive.members import MAX_MEMBERS, known, max_bytes
from app.formats.expansion import MAX_RATIO, RATIO_MATTERS_BYTES
from isoscope.core.errors import InvalidError, TooLargeError

MAX_DIRECTORY_BYTES = 2**20
ENCRYPTED = 0x1
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BLOCK_BYTES = 2**16
ADVICE = "Export the experiment again where it was made."

# What zipfile says to archives that are damaged or were never made by us.
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError,
    OverflowError,
)  # fmt: skip


class Container:
    """The files inside of a zip file."""

    def __init__(self, opened: zipfile.ZipFile) -> None:
        self._zip = opened
        self.names = frozenset(opened.namelist())
        _check_directory(opened.infolist())

    def blocks(self, name: str) -> Iterator[bytes]:
        """What a file unpacks to, a block at a time: ``ZipFile.read`` would inflate all of it before cutting it off."""
        member = copy(self._zip.getinfo(name))
        member.file_size += 1  # so that the checksum is also of what a stream has beyond the size that it declares
        with _told():
            stream = self._zip.open(member)
        with stream:
            while block := _read(stream):
                yield block


class _Reader(FileIO):
    """A file whose directory is read only if it has an honest length: zipfile believes what the archive declares."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its directory is longer than {MAX_DIRECTORY_BYTES:,} bytes")
        return super().read(size) or b""


@contextmanager
def open_container(path: Path) -> Iterator[Container]:
    """Open a zip file whose directory is in order."""
    with _Reader(path) as file:
        with _told():
            opened = zipfile.ZipFile(cast("IO[bytes]", file))
        with opened:
            yield Container(opened)


@contextmanager
def _told() -> Iterator[None]:
    """Say in a sentence what zipfile says. Around nothing else: an error of ours is no fault of the file."""
    try:
        yield
    except ZIP_ERRORS as error:
        raise InvalidError(
            f"The file cannot be read as a zip archive ({str(error)[:120]}): it was cut off, altered, or is something "
            "else. Choose a file that an experiment's Export wrote."
        ) from None


def _read(stream: IO[bytes]) -> bytes:
    with _told():
        return stream.read(BLOCK_BYTES)


def _check_directory(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise TooLargeError(f"The archive has {len(members):,} files, more than {MAX_MEMBERS}: it is no export.")
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise InvalidError(f"Two files in the archive have the same name. {ADVICE}")
    for member in members:
        _check_member(member)


def _check_member(member: zipfile.ZipInfo) -> None:
    name, size = member.filename[:80], member.file_size
    if not known(member.filename):
        raise InvalidError(
            f"The archive holds {name!r}, which no export does. Choose a file that an experiment's Export wrote."
        )
    if member.flag_bits & ENCRYPTED or member.compress_type not in COMPRESSIONS:
        raise InvalidError(f"{name!r} is encrypted, or compressed as no export is. {ADVICE}")
    if size > max_bytes(member.filename):
        raise TooLargeError(
            f"{name!r} unpacks to {size:,} bytes, more than the {max_bytes(member.filename):,} allowed here."
        )
    if size > max(RATIO_MATTERS_BYTES, MAX_RATIO * member.compress_size):
        raise TooLargeError(
            f"{name!r} declares {size:,} bytes in {member.compress_size:,}, more than {MAX_RATIO} to 1, as made to "
            "exhaust memory."
        )
