"""Files in one folder, on this machine or shared by several."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from app.storage.storage import SHA256, Storage, Stored, gone, require_hash


class FolderStorage(Storage):
    """A folder of files named by their hash. They are flushed to the disk, then renamed: no crash leaves a half."""

    def exists(self, sha256: str) -> bool:
        """Whether the file is in the folder."""
        return self._path(sha256).exists()

    def local(self, sha256: str) -> Path:
        """Return the file itself."""
        if not (path := self._path(sha256)).exists():
            raise gone(sha256)
        return path

    def delete(self, sha256: str) -> None:
        """Remove a file; that there is none is fine."""
        self._path(sha256).unlink(missing_ok=True)

    def listed(self) -> Iterator[tuple[str, datetime]]:
        """Yield the SHA-256 of every file of the folder, and when it was stored last."""
        for path in self.folder.iterdir():
            if SHA256.fullmatch(path.name):
                with suppress(FileNotFoundError):  # it is deleted just now
                    yield path.name, datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def _keep(self, temporary: Path, stored: Stored) -> None:
        temporary.replace(self._path(stored.sha256))
        # Makes the rename itself survive a power cut.
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, sha256: str) -> Path:
        return self.folder / require_hash(sha256)
