"""How far compressed values may unpack: what honest embeddings never reach, and what would exhaust memory or time."""

from isoscope.core.errors import TooLargeError

MAX_DECOMPRESSED_BYTES = 8 * 2**30
MAX_RATIO = 200
RATIO_MATTERS_BYTES = 64 * 2**20
"""Below this a constant matrix may be compressed as far as it goes."""


def require_honest(what: str, declared_bytes: int, held_bytes: int) -> None:
    """Refuse values that declare far more bytes than are held for them."""
    if declared_bytes > max(RATIO_MATTERS_BYTES, MAX_RATIO * held_bytes):
        raise TooLargeError(
            f"{what} declares {declared_bytes:,} bytes in {held_bytes:,}, more than {MAX_RATIO} to 1, as made to "
            "exhaust memory: if it is honest, save the array as .npy."
        )
    if declared_bytes > MAX_DECOMPRESSED_BYTES:
        raise TooLargeError(
            f"{what} unpacks to {declared_bytes:,} bytes, more than {MAX_DECOMPRESSED_BYTES:,}: "
            "save fewer arrays or rows."
        )
