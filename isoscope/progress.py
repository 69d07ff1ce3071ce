"""How much of an upload is on its way, for those who look at a terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm


@contextmanager
def sending(files: Sequence[Path]) -> Iterator[Callable[[int], object]]:
    """Yield what is to be told of each part, in bytes, that has left."""
    total = sum(file.stat().st_size for file in files if file.is_file())
    with tqdm(total=total, desc="sending", unit="B", unit_scale=True, disable=None, leave=False) as bar:
        yield bar.update
