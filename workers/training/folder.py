"""The folder of a run: checkpoints and best weights with checksums, removed once the run cannot resume."""

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from app.core.process import COMPLETE_MARKER, finished_checkpoints
from app.core.settings import Settings
from app.db.models import FINAL, RETRIABLE, Run
from app.db.session import Sessions
from app.db.types import utcnow
from workers.training.log import Log

HASHING_THREADS = 4
KEPT_CHECKPOINTS = 2
# A failed or cancelled run can be tried again from its checkpoint. Checkpoints take gigabytes, so only the last few
# such runs keep theirs, and only for a few days.
UNUSED_FOLDER_LIFETIME = timedelta(days=3)
MAX_UNUSED_FOLDERS = 10


class Checksum(NamedTuple):
    """The size and hash that a file must have."""

    bytes: int
    sha256: str


def flush_and_hash(paths: list[Path]) -> dict[Path, Checksum]:
    """Flush files to disk and return their checksums. Hashing overlaps with waiting for the disk."""
    with ThreadPoolExecutor(HASHING_THREADS) as pool:
        flushes = [pool.submit(flush, path) for path in paths]
        checksums = list(pool.map(checksum_of, paths))
        for pending_flush in flushes:
            pending_flush.result()
    return dict(zip(paths, checksums, strict=True))


def checksum_of(path: Path) -> Checksum:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Checksum(file.tell(), digest)


def read_checksums(checkpoint: Path) -> dict[str, Checksum]:
    """Return the checksums of a complete checkpoint's files by relative path; raise ValueError if they are damaged.

    Their file is written last, so it marks the checkpoint as complete.
    """
    try:
        checksums = json.loads((checkpoint / COMPLETE_MARKER).read_bytes())
        return {name: Checksum(**checksum) for name, checksum in checksums.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{COMPLETE_MARKER} cannot be read") from error


def find_damage(checkpoint: Path) -> str | None:
    """Describe the first damage to a checkpoint's files; return None if all match their checksums.

    Raise OSError for a file that cannot be read, except if the disk reports a defect: that is damage too.
    """
    try:
        checksums = read_checksums(checkpoint)
        if not checksums:
            return f"{COMPLETE_MARKER} names no file"
        for name, checksum in checksums.items():
            path = checkpoint / name
            if not path.is_file():
                return f"{path.name} is missing"
            if (size := path.stat().st_size) != checksum.bytes:
                return f"{path.name} has {size:,} bytes instead of {checksum.bytes:,}"
        with ThreadPoolExecutor(HASHING_THREADS) as pool:
            current_checksums = pool.map(lambda name: checksum_of(checkpoint / name), checksums)
            current = dict(zip(checksums, current_checksums, strict=True))
            changed_names = [name for name, checksum in checksums.items() if current[name] != checksum]
    except ValueError as error:
        return str(error)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EBADMSG):
            raise
        return "the disk cannot read one of its files"
    return f"{Path(changed_names[0]).name} has changed since it was saved" if changed_names else None


def flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class DamagedError(Exception):
    """Weights that a run needs are damaged. If it starts again, it removes the checkpoints that need them."""


class RunFolder:
    """The folder of a run. It keeps two checkpoints, ``checkpoint-<step>``, because a disk may damage one."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        self.path = settings.runs / run_id
        self.log = Log(self.path)
        self._best_checksums: dict[str, Checksum] = {}
        """Checksums of the best weights so far, by file name."""

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder, because a trainer presumed dead may still use it; the lock ends with the process."""
        return _locked_path(self.path, lambda: self.path.mkdir(parents=True, exist_ok=True))

    def locked_for_first_process(self) -> AbstractContextManager[None]:
        """Lock a file for the first of a run's processes, because that of the last attempt may outlive its parent."""
        lock_file = self.path / "first"
        return _locked_path(lock_file, lock_file.touch)

    def checkpoint(self, step: int) -> Path:
        return self.path / f"checkpoint-{step}"

    def checkpoints(self) -> list[Path]:
        """Return the complete checkpoints, newest first."""
        return sorted(finished_checkpoints(self.path), key=step_of, reverse=True)

    def keep_sound_checkpoint(self) -> tuple[Path | None, list[tuple[int, str]]]:
        """Return the newest sound checkpoint or None. Remove damaged newer ones, and return step and damage of each."""
        self.remove_unfinished_checkpoints()
        damages: list[tuple[int, str]] = []
        for checkpoint in self.checkpoints():
            if (damage := find_damage(checkpoint)) is None:
                checksums = read_checksums(checkpoint).items()
                self._best_checksums = {Path(name).name: value for name, value in checksums if name.startswith("../")}
                return checkpoint, damages
            damages.append((step_of(checkpoint), damage))
            shutil.rmtree(checkpoint)
        return None, damages

    def remove_unfinished_checkpoints(self) -> None:
        complete = self.checkpoints()
        for path in self.path.glob("checkpoint-*"):
            if path not in complete:
                shutil.rmtree(path, ignore_errors=True)

    def complete_checkpoint(self, checkpoint: Path, best_step: int | None = None) -> None:
        """Write a checkpoint's checksums, which mark it as complete, and remove all but the last two checkpoints.

        ``best_step`` is the step of the best weights so far, which a resumed run needs too.
        """
        files = [path for path in checkpoint.iterdir() if path.is_file()]
        checksums = {path.name: checksum for path, checksum in flush_and_hash(files).items()}
        if best_step is not None:
            name = self.best_weights_path(best_step).name
            checksums[f"../{name}"] = self._best_checksums[name]
        unfinished_marker = checkpoint / f"{COMPLETE_MARKER}.unfinished"
        content = {name: checksum._asdict() for name, checksum in checksums.items()}
        unfinished_marker.write_text(json.dumps(content, indent=1))
        flush(unfinished_marker)
        unfinished_marker.rename(checkpoint / COMPLETE_MARKER)
        flush(checkpoint)
        flush(self.path)
        for old_checkpoint in self.checkpoints()[KEPT_CHECKPOINTS:]:
            shutil.rmtree(old_checkpoint)

    def best_weights_path(self, step: int) -> Path:
        return self.path / f"best-{step}.safetensors"

    def save_best_weights(self, step: int, write: Callable[[Path], None]) -> None:
        """Save weights by ``write``, so that their file appears only once it is complete and flushed to disk."""
        path, unfinished = self.best_weights_path(step), self.path / "best.unfinished"
        write(unfinished)
        self._best_checksums[path.name] = flush_and_hash([unfinished])[unfinished]
        unfinished.rename(path)
        flush(self.path)

    def are_best_weights_sound(self, step: int) -> bool:
        path = self.best_weights_path(step)
        return path.is_file() and checksum_of(path) == self._best_checksums.get(path.name)

    def remove_other_best_weights(self, except_step: int | None) -> None:
        """Remove all best weights except those of ``except_step``, if any, and those that a checkpoint needs."""
        needed: set[str] = set()
        for checkpoint in self.checkpoints():
            with suppress(ValueError):  # damage is reported when the checkpoint is needed
                needed.update(Path(name).name for name in read_checksums(checkpoint))
        for path in self.path.glob("best-*.safetensors"):
            if path.name not in needed and (except_step is None or path != self.best_weights_path(except_step)):
                path.unlink()

    def remove_checkpoints(self) -> None:
        for checkpoint in self.path.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def remove_unneeded_folders(settings: Settings, sessions: Sessions) -> int:
    """Remove folders of ended runs, except the latest failed or cancelled ones that can be retried; return how many."""
    # List folders before the query, so that the folder of a run that starts after the query is not removed.
    folders = list(settings.runs.iterdir())
    with sessions() as session:
        has_folder = Run.id.in_([folder.name for folder in folders])
        needed_ids = set(session.scalars(select(Run.id).where(has_folder, Run.status.not_in(FINAL))))
        is_recent = Run.status.in_(RETRIABLE) & (Run.finished_at > utcnow() - UNUSED_FOLDER_LIFETIME)
        recent_ids = session.scalars(select(Run.id).where(has_folder, is_recent).order_by(Run.finished_at.desc()))
        retriable_ids = [run_id for run_id in recent_ids if finished_checkpoints(settings.runs / run_id)]
    needed_ids.update(retriable_ids[:MAX_UNUSED_FOLDERS])
    n_removed = 0
    for folder in folders:
        if folder.name not in needed_ids:
            # Lock the folder while deleting it; skip it if a trainer that was told to stop still holds it.
            with _open_path(folder) as handle, suppress(BlockingIOError):
                if handle is not None:  # None if another worker has removed it
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
                    n_removed += 1
    return n_removed


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


@contextmanager
def _locked_path(path: Path, create: Callable[[], None]) -> Iterator[None]:
    """Lock a file or folder; create it again if it is removed before the lock is held."""
    while True:
        create()
        with _open_path(path) as handle:
            if handle is None:
                continue
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                is_at_path = os.path.samestat(path.stat(), os.fstat(handle))
            except FileNotFoundError:
                is_at_path = False
            if is_at_path:
                yield
                return


@contextmanager
def _open_path(path: Path) -> Iterator[int | None]:
    """Open a file or folder for reading; yield its descriptor, or None if it does not exist."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
