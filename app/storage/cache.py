"""Copies on this machine of files that are stored elsewhere."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

IN_USE_SECONDS = 60 * 60
"""Whoever asked for a path has opened it by then; an open file may be unlinked without harm."""


class Cache:
    """A folder of files named by their hash, shared by the processes of a machine.

    When they come to more than ``max_bytes``, those least recently used go, but none that was asked for within the
    last hour. The time of its last use is a file's mtime, because not every file system notes when one is read.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    def find(self, sha256: str) -> Path | None:
        """Return the path of a copy if there is one, and note that it is used."""
        path = self.folder / sha256
        with self._locked():
            if not path.exists():
                return None
            os.utime(path)
        return path

    def add(self, temporary: Path, sha256: str) -> Path:
        """Take over a complete file of this folder, and make room for it. Two who bring the same do no harm."""
        path = self.folder / sha256
        with self._locked():
            temporary.replace(path)
            os.utime(path)
            self._make_room()
        return path

    def remove(self, sha256: str) -> None:
        """Drop a copy; that there is none is fine."""
        (self.folder / sha256).unlink(missing_ok=True)

    def _make_room(self) -> None:
        found = []
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):  # a download ends, or a file is removed, just now
                found.append((path, path.stat()))
        excess = sum(stat.st_size for _, stat in found) - self._max_bytes
        oldest_in_use = time.time() - IN_USE_SECONDS
        for path, stat in sorted(found, key=lambda one: one[1].st_mtime):
            if excess <= 0 or stat.st_mtime > oldest_in_use:
                return
            path.unlink(missing_ok=True)
            excess -= stat.st_size

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from dropping a file between the look at it and the note that it is used."""
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
