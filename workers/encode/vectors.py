"""The vectors of an encoding while it is made: on the disk, in a file that goes with the process."""

import shutil
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

from app.db.encoding import FLOAT_BYTES, require_sensible
from isoscope.core.errors import InvalidError


def room_for(matrices: int, n: int, d: int, folder: Path) -> NDArray[np.float32]:
    """Return an array [matrices, n, d] mapped into memory from a file in ``folder`` that has no name.

    The disk has its room back when the array goes, or the process, however it ends.

    Raises:
        InvalidError: they are more than an encoding may make, or than the disk has room for.

    """
    size_bytes = matrices * n * d * FLOAT_BYTES
    require_sensible(matrices, size_bytes)
    _require_room(folder, size_bytes)
    with TemporaryFile(dir=folder) as file:  # the map keeps a descriptor of its own
        return np.memmap(file, dtype=np.float32, mode="w+", shape=(matrices, n, d))


def _require_room(folder: Path, size_bytes: int) -> None:
    """Refuse what the disk has no room for: a mapped file would end the process."""
    # They lie there twice while they are put into the storage, if that is on the same disk.
    if (free := shutil.disk_usage(folder).free) < 2 * size_bytes:
        raise InvalidError(
            f"The disk of this worker has {free / 1e9:,.1f} GB left, and the vectors need "
            f"{2 * size_bytes / 1e9:,.1f} GB. Choose fewer layers, poolings or rows, or make room.",
            "layers",
        )
