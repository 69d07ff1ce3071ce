"""The vectors of an encoding while it is made: on the disk, in a file that goes with the process."""

import shutil
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from app.db.encoding import MAX_BYTES, MAX_EMBEDDINGS
from app.errors import InvalidError

FLOAT_BYTES = 4


class Vectors:
    """Matrices [n, d] of float32, several of one shape, mapped into memory from a file without a name.

    However the process ends, the disk has its room back. ``values`` is [matrices, n, d].
    """

    def __init__(self, folder: Path, matrices: int, n: int, d: int) -> None:
        _require_room(folder, matrices, n * d * FLOAT_BYTES)
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - open for as long as the vectors are
        self.values = np.memmap(self._file, dtype=np.float32, mode="w+", shape=(matrices, n, d))

    def close(self) -> None:
        """Let the disk have its room back."""
        self._file.close()


def _require_room(folder: Path, matrices: int, size_bytes: int) -> None:
    """Refuse what is too much, or what the disk has no room for: a mapped file would end the process."""
    total = matrices * size_bytes
    if matrices > MAX_EMBEDDINGS or total > MAX_BYTES:
        raise InvalidError(
            f"Expected at most {MAX_EMBEDDINGS} embeddings of {MAX_BYTES / 1e9:,.1f} GB together, got {matrices:,} of "
            f"{total / 1e9:,.1f} GB. Choose fewer layers, poolings or rows.",
            "layers",
        )
    # They lie there twice while they are put into the storage, if that is on the same disk.
    if (free := shutil.disk_usage(folder).free) < 2 * total:
        raise InvalidError(
            f"The disk of this worker has {free / 1e9:,.1f} GB left, and the vectors need "
            f"{2 * total / 1e9:,.1f} GB. Choose fewer layers, poolings or rows, or make room.",
            "layers",
        )
