"""Text that was compressed with gzip, read as if it were not, up to what honest text unpacks to."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from app.formats.expansion import MAX_DECOMPRESSED_BYTES, MAX_RATIO, RATIO_MATTERS_BYTES
from isoscope.core.errors import InvalidError, TooLargeError

MAGIC = b"\x1f\x8b"
SUFFIX = ".gz"


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file whose bytes are read unpacked if they are compressed, and as they are if not."""
    with path.open("rb") as stream:
        if stream.peek(len(MAGIC)).startswith(MAGIC):
            with io.BufferedReader(_Unpacked(stream, path.stat().st_size)) as unpacked:
                yield unpacked
        else:
            yield stream


def is_gzipped(path: Path) -> bool:
    """Whether the first bytes are those of gzip."""
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


class _Unpacked(io.RawIOBase):
    """What a gzip file holds; gzip does not declare how much, so it is counted while it is read."""

    def __init__(self, stream: IO[bytes], held_bytes: int) -> None:
        self._file = gzip.GzipFile(fileobj=stream)
        self._limit = min(MAX_DECOMPRESSED_BYTES, max(RATIO_MATTERS_BYTES, MAX_RATIO * held_bytes))
        self._held_bytes = held_bytes
        self._unpacked_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader gives
        try:
            read = self._file.readinto(buffer)
        except (EOFError, OSError, zlib.error):
            raise InvalidError(
                "The gzip file ends early or is damaged: compress it again, or upload it uncompressed."
            ) from None
        self._unpacked_bytes += read
        if self._unpacked_bytes > self._limit:
            raise TooLargeError(
                f"The gzip file of {self._held_bytes:,} bytes unpacks to more than {self._limit:,}, as made to exhaust "
                "memory or time: if it is honest, upload a part of it, or upload it uncompressed."
            )
        return read
