"""Read compressed files safely: limits on unpacked sizes, gzipped text, and zip directories."""

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from isoscope.core.errors import InvalidError, TooLargeError

MAX_DECOMPRESSED_BYTES = 8 * 2**30
MAX_RATIO = 200
# Smaller contents may have any ratio: a constant matrix compresses well.
RATIO_MATTERS_BYTES = 64 * 2**20

GZIP_MAGIC = b"\x1f\x8b"
GZIP_SUFFIX = ".gz"

MAX_DIRECTORY_BYTES = 2**20
ENCRYPTED = 0x1
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# Errors that zipfile raises for archives that are damaged or come from other programs.
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError,
    OverflowError,
)  # fmt: skip


def is_bomb(declared_bytes: int, held_bytes: int) -> bool:
    """Return whether values declare far more bytes than are stored for them."""
    return declared_bytes > max(RATIO_MATTERS_BYTES, MAX_RATIO * held_bytes)


def require_plausible_size(noun: str, declared_bytes: int, held_bytes: int) -> None:
    if is_bomb(declared_bytes, held_bytes):
        raise TooLargeError(
            f"{noun} declares {declared_bytes:,} bytes in {held_bytes:,}, more than {MAX_RATIO} to 1, which could "
            "exhaust memory: save the array as .npy instead."
        )
    if declared_bytes > MAX_DECOMPRESSED_BYTES:
        raise TooLargeError(
            f"{noun} unpacks to {declared_bytes:,} bytes, more than {MAX_DECOMPRESSED_BYTES:,}: "
            "save fewer arrays or rows."
        )


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, and decompress it if it is gzipped."""
    with path.open("rb") as stream:
        if stream.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            with io.BufferedReader(_LimitedGzip(stream, path.stat().st_size)) as unpacked:
                yield unpacked
        else:
            yield stream


def is_gzipped(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC


class _LimitedGzip(io.RawIOBase):
    """A gzip stream that limits its unpacked size, which gzip does not declare."""

    def __init__(self, stream: IO[bytes], held_bytes: int) -> None:
        self._file = gzip.GzipFile(fileobj=stream)
        self._limit = min(MAX_DECOMPRESSED_BYTES, max(RATIO_MATTERS_BYTES, MAX_RATIO * held_bytes))
        self._held_bytes = held_bytes
        self._unpacked_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        try:
            n_read = self._file.readinto(buffer)
        except (EOFError, OSError, zlib.error):
            raise InvalidError(
                "The gzip file ends early or is damaged: compress it again, or upload it uncompressed."
            ) from None
        self._unpacked_bytes += n_read
        if self._unpacked_bytes > self._limit:
            raise TooLargeError(
                f"The gzip file of {self._held_bytes:,} bytes unpacks to more than {self._limit:,}, which could "
                "exhaust memory or time: upload a part of it, or upload it uncompressed."
            )
        return n_read


@contextmanager
def open_zip(path: Path, error_template: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip file by its directory; see ``reading_zip`` for ``error_template``."""
    with _LimitedReads(path) as file:
        with reading_zip(error_template):
            archive = zipfile.ZipFile(cast("IO[bytes]", file))
        with archive:
            yield archive


@contextmanager
def reading_zip(error_template: str) -> Iterator[None]:
    """Raise InvalidError for errors of zipfile; ``error_template`` contains ``{reason}``."""
    try:
        yield
    except ZIP_ERRORS as error:
        raise InvalidError(error_template.format(reason=str(error)[:120])) from None


class _LimitedReads(io.FileIO):
    """A file that refuses long reads, because zipfile trusts the directory size that an archive declares."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"its directory is longer than {MAX_DIRECTORY_BYTES:,} bytes")
        return super().read(size) or b""
