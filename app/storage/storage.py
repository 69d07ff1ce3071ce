"""The storage interface, temporary files of uploads, and the storage in a folder."""

import hashlib
import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, NamedTuple

from app.core.space import explain_full_disk
from isoscope.core.errors import InvalidError, NotFoundError, TooLargeError

BLOCK_BYTES = 2**20
TEMPORARY_PREFIX = "arriving-"
TEMPORARY_SECONDS = 24 * 60 * 60
# Prefixes of temporary folders in which the rows of an upload are processed.
DIVIDING_PREFIX, CHECKING_PREFIX = "divide-", "check-truth-"
SHA256 = re.compile(r"[0-9a-f]{64}")


class Incoming(NamedTuple):
    """An uploaded file and its name."""

    stream: BinaryIO
    filename: str


@dataclass(frozen=True)
class Stored:
    """The name of a stored file, which is its hash, and its size."""

    sha256: str
    size_bytes: int


class Storage(ABC):
    """Files named by their SHA-256, so that identical files are stored once. A file is visible only when complete."""

    def __init__(self, folder: Path) -> None:
        # For temporary files; a folder storage keeps its files there, too.
        self.folder = folder

    def write(self, stream: BinaryIO, max_bytes: int) -> Stored:
        """Store the bytes of a stream under their hash; leave nothing behind if that fails.

        Reads at most one block beyond ``max_bytes``. Raises TooLargeError, InvalidError for an empty stream,
        FullDiskError, or UnavailableError if the storage cannot be reached.
        """
        with write_temporary(_read_capped(stream, max_bytes), self.folder) as (temporary, stored):
            self._store_temporary(temporary, stored)
        return stored

    @abstractmethod
    def exists(self, sha256: str) -> bool:
        pass

    @abstractmethod
    def local_path(self, sha256: str) -> Path:
        """Return the path of the file on this machine. It is valid for an hour.

        Raises NotFoundError if the file is missing, InvalidError if it is damaged.
        """

    @abstractmethod
    def delete(self, sha256: str) -> None:
        """Remove a file if it exists."""

    @abstractmethod
    def list_files(self) -> Iterator[tuple[str, datetime]]:
        """Yield the SHA-256 and the storing time of every file."""

    @abstractmethod
    def _store_temporary(self, temporary: Path, stored: Stored) -> None:
        """Store a temporary file under its hash, by moving or copying it."""

    def sweep_temporary(self) -> None:
        """Remove leftovers of uploads interrupted more than a day ago."""
        cutoff = time.time() - TEMPORARY_SECONDS
        for leftover in self.folder.glob(f"{TEMPORARY_PREFIX}*"):
            with suppress(FileNotFoundError):  # its upload may have just ended
                if leftover.stat().st_mtime < cutoff:
                    leftover.unlink()


def sweep_folders(root: Path) -> None:
    """Remove temporary folders of uploads interrupted more than a day ago."""
    cutoff = time.time() - TEMPORARY_SECONDS
    for prefix in (DIVIDING_PREFIX, CHECKING_PREFIX):
        for leftover in root.glob(f"{prefix}????????"):  # as tempfile names them
            with suppress(FileNotFoundError):
                if leftover.is_dir() and not leftover.is_symlink() and leftover.stat().st_mtime < cutoff:
                    shutil.rmtree(leftover, ignore_errors=True)


def require_hash(sha256: str) -> str:
    """Return the hash, or raise NotFoundError if it is not one, before it becomes part of a path."""
    if not SHA256.fullmatch(sha256):
        raise NotFoundError(
            f"Expected a file's SHA-256, 64 digits 0-9 a-f, got {sha256[:80]!r}: there is no such file."
        )
    return sha256


def file_gone_error(sha256: str) -> NotFoundError:
    return NotFoundError(f"The file {sha256[:12]}… is gone from the storage; upload it again.")


@contextmanager
def write_temporary(blocks: Iterable[bytes], folder: Path) -> Iterator[tuple[Path, Stored]]:
    """Write bytes to a temporary file and yield its path, hash and size. It is removed afterward unless moved away."""
    digest = hashlib.sha256()
    size_bytes = 0
    # Write in the final folder, because a rename is atomic only within one file system.
    with explain_full_disk(folder), NamedTemporaryFile(dir=folder, prefix=TEMPORARY_PREFIX, delete=False) as temporary:
        path = Path(temporary.name)
        try:
            for block in blocks:
                size_bytes += len(block)
                digest.update(block)
                temporary.write(block)
            temporary.flush()
            os.fsync(temporary.fileno())
            yield path, Stored(digest.hexdigest(), size_bytes)
        finally:
            path.unlink(missing_ok=True)


def _read_capped(stream: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the blocks of a stream. Raise TooLargeError above ``max_bytes``, InvalidError if it is empty."""
    size_bytes = 0
    while block := stream.read(BLOCK_BYTES):
        size_bytes += len(block)
        if size_bytes > max_bytes:
            raise TooLargeError(
                f"The file has more than {max_bytes:,} bytes, the limit here: upload a part of it, "
                "or have the limit raised by whoever runs this server."
            )
        yield block
    if size_bytes == 0:
        raise InvalidError("The file is empty: 0 bytes arrived. Choose a file that holds data.")


class FolderStorage(Storage):
    """A folder of files. They are flushed to the disk and then renamed, so that no crash leaves half a file."""

    def exists(self, sha256: str) -> bool:
        return self._path(sha256).exists()

    def local_path(self, sha256: str) -> Path:
        if not (path := self._path(sha256)).exists():
            raise file_gone_error(sha256)
        return path

    def delete(self, sha256: str) -> None:
        self._path(sha256).unlink(missing_ok=True)

    def list_files(self) -> Iterator[tuple[str, datetime]]:
        for path in self.folder.iterdir():
            if SHA256.fullmatch(path.name):
                with suppress(FileNotFoundError):  # it was just deleted
                    yield path.name, datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def _store_temporary(self, temporary: Path, stored: Stored) -> None:
        temporary.replace(self._path(stored.sha256))
        # Flush the folder too, so that the rename survives a power cut.
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, sha256: str) -> Path:
        return self.folder / require_hash(sha256)
