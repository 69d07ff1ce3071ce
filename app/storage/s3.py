"""Files in an S3-compatible bucket, read through a cache on this machine.

Credentials, region and endpoint come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_DEFAULT_REGION and
AWS_ENDPOINT_URL.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from aiohttp import ClientError as TransportError
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from s3fs import S3FileSystem

from app.storage.storage import BLOCK_BYTES, SHA256, Storage, Stored, file_gone_error, require_hash, write_temporary
from isoscope.core.errors import InvalidError, UnavailableError

# Callers open a path that they got within this time. An open file can be unlinked safely.
IN_USE_SECONDS = 60 * 60


class Cache:
    """A folder of files named by their hash, shared by the processes of a machine.

    Above ``max_bytes`` the least recently used files are evicted, except those used within the last hour. A file's
    mtime is its last use, because not every file system records reads.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    def find(self, sha256: str) -> Path | None:
        """Return the path of a cached copy and mark it as used; None if there is none."""
        path = self.folder / sha256
        with self._locked():
            if not path.exists():
                return None
            os.utime(path)
        return path

    def add(self, temporary: Path, sha256: str) -> Path:
        """Move a complete temporary file into the cache, and evict old files. Concurrent calls are safe."""
        path = self.folder / sha256
        with self._locked():
            temporary.replace(path)
            os.utime(path)
            files = []
            for file in self.folder.iterdir():
                with suppress(FileNotFoundError):  # the file was just moved or removed
                    files.append((file, file.stat()))
            excess = sum(stat.st_size for _, stat in files) - self._max_bytes
            in_use_since = time.time() - IN_USE_SECONDS
            for file, stat in sorted(files, key=lambda entry: entry[1].st_mtime):
                if excess <= 0 or stat.st_mtime > in_use_since:
                    break
                file.unlink(missing_ok=True)
                excess -= stat.st_size
        return path

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from evicting a file between finding it and marking its use."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


logger = logging.getLogger(__name__)

S3_CONFIG = {"connect_timeout": 5, "read_timeout": 30, "retries": {"mode": "standard", "total_max_attempts": 3}}
TRANSFER_ATTEMPTS = 2  # if a transfer is interrupted
# Parts are held in memory during a transfer.
PART_BYTES = 8 * 2**20
PARALLEL_PARTS = 4
MAX_PARTS = 10_000  # of one object, which S3 allows


class S3Storage(Storage):
    """Objects named ``bucket/prefix/<sha256>``. An object appears only when complete, and never changes."""

    def __init__(self, bucket: str, cache: Path, cache_bytes: int) -> None:
        super().__init__(cache)
        self._bucket = bucket
        self._cache = Cache(cache, cache_bytes)
        # No cache of listings, which would go stale when another machine writes.
        self._remote: Any = S3FileSystem(config_kwargs=S3_CONFIG, use_listings_cache=False, skip_instance_cache=True)
        self._remote.retries = TRANSFER_ATTEMPTS

    def exists(self, sha256: str) -> bool:
        return self._find_size(sha256) is not None

    def local_path(self, sha256: str) -> Path:
        """Return the cached copy of an object; if there is none, fetch it and check its hash."""
        if (path := self._cache.find(require_hash(sha256))) is not None:
            return path
        with write_temporary(self._read_blocks(sha256), self.folder) as (temporary, stored):
            if stored.sha256 != sha256:
                raise InvalidError(
                    f"The file {sha256[:12]}… is damaged in the storage: its {stored.size_bytes:,} bytes have the "
                    f"SHA-256 {stored.sha256[:12]}…. Delete what was made of it here, then upload it again."
                )
            return self._cache.add(temporary, sha256)

    def delete(self, sha256: str) -> None:
        """Remove an object and its local copy. Other machines evict theirs when their caches fill."""
        with self._explaining_errors():
            self._remote.rm_file(self._key(sha256))
        (self.folder / sha256).unlink(missing_ok=True)

    def list_files(self) -> Iterator[tuple[str, datetime]]:
        with self._explaining_errors():
            try:
                objects = self._remote.ls(self._bucket, detail=True, refresh=True)
            except FileNotFoundError as error:
                if _lacks_bucket(error):
                    raise
                objects = []  # nothing is stored yet
        for details in objects:
            if SHA256.fullmatch(name := details["name"].rpartition("/")[2]):
                yield name, details["LastModified"]

    def _store_temporary(self, temporary: Path, stored: Stored) -> None:
        if self._find_size(stored.sha256) != stored.size_bytes:
            with self._explaining_errors():
                self._remote.put_file(
                    str(temporary),
                    self._key(stored.sha256),
                    chunksize=max(PART_BYTES, -(-stored.size_bytes // MAX_PARTS)),
                    max_concurrency=PARALLEL_PARTS,
                )
        self._cache.add(temporary, stored.sha256)

    def _find_size(self, sha256: str) -> int | None:
        with self._explaining_errors():
            try:
                return int(self._remote.info(self._key(sha256))["size"])
            except FileNotFoundError as error:
                if _lacks_bucket(error):
                    raise
        return None

    def _read_blocks(self, sha256: str) -> Iterator[bytes]:
        if self._find_size(sha256) is None:
            raise file_gone_error(sha256)
        with self._explaining_errors(), self._remote.open(self._key(sha256), "rb", block_size=PART_BYTES) as remote:
            while block := remote.read(BLOCK_BYTES):
                yield block

    def _key(self, sha256: str) -> str:
        return f"{self._bucket}/{require_hash(sha256)}"

    @contextmanager
    def _explaining_errors(self) -> Iterator[None]:
        """Turn errors of the service or the network into UnavailableError, and log the original message."""
        try:
            yield
        except (OSError, BotoCoreError, ClientError, TransportError) as error:
            logger.warning("s3://%s: %s: %s", self._bucket, type(error).__name__, error)
            if isinstance(error, PermissionError | NoCredentialsError):
                reason = (
                    "The storage of files refuses this server. Whoever runs it has to check AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY and what they allow; its log has the cause."
                )
            elif _lacks_bucket(error):
                reason = (
                    "The storage of files has no such bucket. Whoever runs this server has to create it, or to name "
                    "another in ISOSCOPE_STORAGE_URL."
                )
            else:
                reason = (
                    "The storage of files cannot be reached at the moment. Try again later; this server's log has the "
                    "cause."
                )
            raise UnavailableError(reason) from error


def _lacks_bucket(error: Exception) -> bool:
    response: dict[str, dict[str, str]] = getattr(error.__cause__, "response", None) or {}
    return response.get("Error", {}).get("Code") == "NoSuchBucket"
