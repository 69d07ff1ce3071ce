"""The vectors of an encoding while it is made: on the disk, in a file that goes with the process."""

import shutil
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from app.db.encoding import FLOAT_BYTES, require_sensible
from app.errors import InvalidError


class Vectors:
    """Matrices [n, d] of float32, several of one shape, mapped into memory from a file without a name.

    However the process ends, the disk has its room back. ``values`` is [matrices, n, d].
    """

    def __init__(self, folder: Path, matrices: int, n: int, d: int) -> None:
        size_bytes = matrices * n * d * FLOAT_BYTES
        require_sensible(matrices, size_bytes)
        _require_room(folder, size_bytes)
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - open for as long as the vectors are
        self.values = np.memmap(self._file, dtype=np.float32, mode="w+", shape=(matrices, n, d))

    def close(self) -> None:
        """Let the disk have its room back."""
        self._file.close()


def _require_room(folder: Path, size_bytes: int) -> None:
    """Refuse what the disk has no room for: a mapped file would end the process."""
    # They lie there twice while they are put into the storage, if that is on the same disk.
    if (free := shutil.disk_usage(folder).free) < 2 * size_bytes:
        raise InvalidError(
            f"The disk of this worker has {free / 1e9:,.1f} GB left, and the vectors need "
            f"{2 * size_bytes / 1e9:,.1f} GB. Choose fewer layers, poolings or rows, or make room.",
            "layers",
        )
