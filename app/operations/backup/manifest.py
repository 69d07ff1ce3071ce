"""What a backup holds: the manifest that is written last, and by which everything is verified before a restore."""

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from app.storage.storage import BLOCK_BYTES
from isoscope.core.errors import InvalidError, NotFoundError

MANIFEST = "manifest.json"
FILES, RUNS = "files", "runs"
DAMAGED_SHOWN = 5

Engine = Literal["sqlite", "postgresql"]


class Entry(BaseModel, frozen=True):
    """A file of a backup, by its path in the backup's folder."""

    path: str
    size_bytes: int
    sha256: str


class Manifest(BaseModel, frozen=True):
    """All that is in a backup."""

    format: Literal[1] = 1
    isoscope: str
    created_at: datetime
    schema_revision: str
    metrics_engine: Engine
    queue_engine: Engine | None
    """None where the job engine's tables are in the metrics database."""
    databases: list[Entry]
    runs: list[Entry]
    files: list[Entry]
    missing: list[str]
    """Hashes of stored files that were deleted while the backup was made."""
    damaged: list[str]
    """Hashes of stored files whose bytes were not those that were stored."""

    @property
    def entries(self) -> list[Entry]:
        """Every file but the manifest."""
        return [*self.databases, *self.runs, *self.files]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(entry.size_bytes for entry in self.entries)


def find_backup(folder: Path) -> Path:
    """Return the backup that a folder is, or the newest of those in it.

    Raises:
        NotFoundError: there is none.

    """
    found = [folder] if (folder / MANIFEST).is_file() else sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    if not found:
        raise NotFoundError(f"There is no backup in {folder}. Name a folder that isoscope backup has written.")
    return found[-1]


def read_manifest(backup: Path) -> Manifest:
    """Return the manifest of a backup.

    Raises:
        InvalidError: it cannot be read, or names a file outside the backup.

    """
    try:
        manifest = Manifest.model_validate_json((backup / MANIFEST).read_bytes())
    except (OSError, ValidationError) as error:
        raise InvalidError(f"{backup / MANIFEST} cannot be read, or is of a newer version of Isoscope.") from error
    for entry in manifest.entries:
        if not (backup / entry.path).resolve().is_relative_to(backup.resolve()):
            raise InvalidError(f"{backup / MANIFEST} names a file outside the backup: {entry.path}.")
    return manifest


def verify(backup: Path, manifest: Manifest) -> None:
    """Compare size and SHA-256 of every file of a backup.

    Raises:
        InvalidError: some are missing or differ; its sentence names the first of them.

    """
    damaged = [entry.path for entry in manifest.entries if not _is_whole(backup / entry.path, entry)]
    if damaged:
        named = ", ".join(damaged[:DAMAGED_SHOWN]) + (", …" if len(damaged) > DAMAGED_SHOWN else "")
        raise InvalidError(
            f"{len(damaged)} of {len(manifest.entries)} files in {backup} are missing or damaged: {named}. "
            "Nothing was restored. Use another backup."
        )


def entry_of(backup: Path, path: Path) -> Entry:
    """Return the entry of a file that was just written to a backup."""
    return Entry(path=str(path.relative_to(backup)), size_bytes=path.stat().st_size, sha256=hash_of(path))


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _is_whole(path: Path, entry: Entry) -> bool:
    return path.is_file() and path.stat().st_size == entry.size_bytes and hash_of(path) == entry.sha256
