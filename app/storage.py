"""Files by the hash of their content, in one folder."""

import hashlib
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from app.errors import InvalidError, NotFoundError, TooLargeError

BLOCK_BYTES = 2**20
TEMPORARY_PREFIX = "upload-"
TEMPORARY_SECONDS = 24 * 60 * 60
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Stored:
    """A file that is safely on disk."""

    sha256: str
    size_bytes: int


class Storage:
    """A folder of files named by their SHA-256, so that identical bytes are kept once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, stream: BinaryIO, max_bytes: int) -> Stored:
        """Keep the bytes of a stream under their hash; nothing is left behind if that fails.

        Raises:
            TooLargeError: the stream has more than ``max_bytes``; no more than one block beyond them is read.
            InvalidError: the stream is empty.

        """
        digest = hashlib.sha256()
        size_bytes = 0
        # In the same folder, because a rename is atomic only within one file system.
        with NamedTemporaryFile(dir=self.folder, prefix=TEMPORARY_PREFIX, delete=False) as temporary:
            try:
                while block := stream.read(BLOCK_BYTES):
                    size_bytes += len(block)
                    if size_bytes > max_bytes:
                        raise TooLargeError(
                            f"The file has more than {max_bytes:,} bytes, the limit here: upload a part of it, "
                            "or have the limit raised by whoever runs this server."
                        )
                    digest.update(block)
                    temporary.write(block)
                if size_bytes == 0:
                    raise InvalidError("The file is empty: 0 bytes arrived. Choose a file that holds data.")
                temporary.flush()
                os.fsync(temporary.fileno())
                Path(temporary.name).replace(self.folder / digest.hexdigest())
            except BaseException:
                Path(temporary.name).unlink(missing_ok=True)
                raise
        self._sync_folder()
        return Stored(digest.hexdigest(), size_bytes)

    def path(self, sha256: str) -> Path:
        """Return where the file is, or would be. A name that is not a hash never reaches the file system."""
        if not SHA256.fullmatch(sha256):
            raise NotFoundError(
                f"Expected a file's SHA-256, 64 digits 0-9 a-f, got {sha256[:80]!r}: there is no such file."
            )
        return self.folder / sha256

    def delete(self, sha256: str) -> None:
        """Remove a file; that there is none is fine."""
        self.path(sha256).unlink(missing_ok=True)

    def sweep_temporary(self) -> None:
        """Remove what interrupted uploads left behind more than a day ago."""
        oldest = time.time() - TEMPORARY_SECONDS
        for leftover in self.folder.glob(f"{TEMPORARY_PREFIX}*"):
            with suppress(FileNotFoundError):  # its upload may end just now
                if leftover.stat().st_mtime < oldest:
                    leftover.unlink()

    def _sync_folder(self) -> None:
        """Make the rename itself survive a power cut."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
