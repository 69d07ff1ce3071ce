import numpy as np

Upload = tuple[str, bytes]
"""The name it comes under, and its bytes."""


class Explosive:
    """What raises when it is unpickled."""

    def __reduce__(self):
        return exec, ("raise AssertionError('a pickle was loaded')",)


def noise(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)
