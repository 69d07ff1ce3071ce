"""Free disk space, and a spare file whose removal lets users delete data on a full disk."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from app.core.settings import MIB, Settings
from isoscope.core.errors import FullDiskError
from isoscope.core.formatting import size

FULL_DISK_CODES = (errno.ENOSPC, errno.EDQUOT)
SPARE_BYTES = 32 * MIB  # more than SQLite's write-ahead log takes to delete an experiment
BLOCK = bytes(MIB)


class Disk(NamedTuple):
    """A file system, and the first folder on it that Isoscope writes to."""

    folder: Path
    free_bytes: int
    total_bytes: int
    # False if Isoscope writes only temporary files there.
    holds_data: bool


def is_full(error: BaseException | None) -> bool:
    """Return whether an error of the operating system says that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in FULL_DISK_CODES


def full_disk_error(folder: Path) -> FullDiskError:
    with suppress(OSError):
        free = size(shutil.disk_usage(folder).free)
        return FullDiskError(
            f"The disk that holds {folder} is full: {free} free. Delete something or make room there, then try again."
        )
    return FullDiskError(f"The disk that holds {folder} is full. Make room there, then try again.")


@contextmanager
def explain_full_disk(folder: Path) -> Iterator[None]:
    """Turn errors about a full disk into a FullDiskError that names ``folder``."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise full_disk_error(folder) from error
        raise


def list_disks(settings: Settings) -> list[Disk]:
    """Return each disk that Isoscope writes to; those that hold only temporary files last."""
    data_folders = [settings.root, settings.files if settings.bucket is None else settings.cache]
    folders = [(folder, True) for folder in data_folders + [file.parent for file in settings.sqlite_files]]
    with suppress(OSError):  # raised if there is no writable folder for temporary files
        folders.append((Path(tempfile.gettempdir()), False))
    disks_by_device: dict[int, Disk] = {}
    for folder, holds_data in folders:
        with suppress(OSError):  # raised if the folder does not exist yet
            device = folder.stat().st_dev
            if device not in disks_by_device:
                usage = shutil.disk_usage(folder)
                disks_by_device[device] = Disk(folder, usage.free, usage.total, holds_data)
    return list(disks_by_device.values())


def require_room(settings: Settings, *, upload_bytes: int = 0, stored_bytes: int = 0) -> None:
    """Raise FullDiskError if new data would leave less than the reserve free on a disk.

    ``upload_bytes`` need room twice, as a temporary file and in the storage; ``stored_bytes`` only in the storage.
    """
    new_bytes_by_device: dict[int, int] = {}
    for folder, size_bytes in (
        (settings.files if settings.bucket is None else settings.cache, upload_bytes + stored_bytes),
        (Path(tempfile.gettempdir()), upload_bytes),
    ):
        with suppress(OSError):
            device = folder.stat().st_dev
            new_bytes_by_device[device] = new_bytes_by_device.get(device, 0) + size_bytes
    for disk in list_disks(settings):
        reserve = settings.reserve_bytes if disk.holds_data else 0
        needed = new_bytes_by_device.get(disk.folder.stat().st_dev, 0) + reserve
        if disk.free_bytes < needed:
            note = f", {size(reserve)} of them as a reserve (ISOSCOPE_RESERVE_BYTES)" if reserve else ""
            raise FullDiskError(
                f"The disk that holds {disk.folder} has {size(disk.free_bytes)} free; this needs {size(needed)}{note}. "
                "Delete something or make room there, then try again."
            )


@dataclass(frozen=True)
class SpareFile:
    """A file that holds some disk space ready: deleting data from a full disk needs space, so it is removed first."""

    path: Path
    size_bytes: int

    @classmethod
    def from_settings(cls, settings: Settings) -> "SpareFile":
        """Return the spare file in the data folder. It counts toward the reserve."""
        return cls(settings.root / "reserve", min(SPARE_BYTES, settings.reserve_bytes))

    def create_if_missing(self) -> None:
        """Create the file if it is missing, unless the disk has less free than twice its size."""
        if not self.size_bytes or self.path.exists():
            return
        with suppress(OSError):
            if shutil.disk_usage(self.path.parent).free < 2 * self.size_bytes:
                return
            temporary_path = self.path.with_suffix(f".{os.getpid()}")
            try:
                with temporary_path.open("wb") as file:
                    if hasattr(os, "posix_fallocate"):
                        os.posix_fallocate(file.fileno(), 0, self.size_bytes)
                    else:
                        for _ in range(0, self.size_bytes, len(BLOCK)):
                            file.write(BLOCK)
                temporary_path.replace(self.path)
            finally:
                temporary_path.unlink(missing_ok=True)

    @contextmanager
    def make_room(self) -> Iterator[None]:
        """Remove the file for the time of the context if the disk is nearly full; afterward create it if it fits."""
        with suppress(OSError):
            if shutil.disk_usage(self.path.parent).free < self.size_bytes:
                self.path.unlink(missing_ok=True)
        try:
            yield
        finally:
            self.create_if_missing()
