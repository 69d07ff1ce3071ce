"""Counts over all rows of a matrix: rows that no measure sees, and rows that are suspect."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from app.formats.contents import Block

DIGEST_BYTES = 16


class Census:
    """Counts rows block by block, with 16 bytes of memory for each row."""

    def __init__(self) -> None:
        self.n = 0
        self.n_nonfinite = 0
        self.n_zero = 0
        self._digests = bytearray()

    def add(self, block: Block) -> None:
        """Count the rows of a block [k, d] of float32 or float64."""
        finite = block[np.isfinite(block).all(axis=1)]
        self.n += len(block)
        self.n_nonfinite += len(block) - len(finite)
        self.n_zero += int(np.count_nonzero(~finite.any(axis=1)))
        # Adding zero turns -0.0 into 0.0, which is the same number in other bytes.
        for row in finite + 0.0:
            self._digests += blake2b(row, digest_size=DIGEST_BYTES).digest()

    @property
    def n_duplicate(self) -> int:
        """Finite rows equal to an earlier one."""
        digests: NDArray[np.bytes_] = np.frombuffer(self._digests, f"S{DIGEST_BYTES}")
        return len(digests) - len(np.unique(digests))
