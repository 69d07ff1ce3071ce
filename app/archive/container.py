"""The zip file around an archive from outside: its directory is checked before a byte of it is unpacked."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import IO

from app.archive.members import MAX_MEMBERS, known, max_bytes
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files.compressed import COMPRESSIONS, ENCRYPTED, MAX_RATIO, is_bomb, open_zip, reading_zip

BLOCK_BYTES = 2**16
ADVICE = "Export the experiment again where it was made."
BROKEN = (
    "The file cannot be read as a zip archive ({reason}): it was cut off, altered, or is something else. Choose a file "
    "that an experiment's Export wrote."
)


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
        # Only the read is guarded: an error of the caller, between blocks, is not the file's fault.
        with reading_zip(BROKEN):
            stream = self._zip.open(member)
        with stream:
            while block := _read(stream):
                yield block


@contextmanager
def open_container(path: Path) -> Iterator[Container]:
    """Open a zip file whose directory is in order."""
    with open_zip(path, BROKEN) as opened:
        yield Container(opened)


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
    if is_bomb(size, member.compress_size):
        raise TooLargeError(
            f"{name!r} declares {size:,} bytes in {member.compress_size:,}, more than {MAX_RATIO} to 1, as made to "
            "exhaust memory."
        )


def _read(stream: IO[bytes]) -> bytes:
    with reading_zip(BROKEN):
        return stream.read(BLOCK_BYTES)
