"""Fetch the files of rows, store files made here, and generate files while they are read."""

import io
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from app.core.settings import Settings
from app.db.models import Embedding
from app.storage import Stored, open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import NotFoundError, UnavailableError
from isoscope.files.matrix import Matrix, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import Upload
from isoscope.rows import require_measurable

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# Pauses between attempts: restarted storage is back within minutes, and all other jobs need it too.
RETRY_PAUSES_SECONDS = (1, 5, 20, 60, 120)


def fetch(sha256: str, filename: str, settings: Settings) -> Path:
    """Return the local path of a stored file; wait several minutes if the storage cannot be reached."""
    storage = open_storage(settings)
    try:
        return _retry_if_unavailable(lambda: storage.local_path(sha256), f"The file {filename} could not be loaded")
    except NotFoundError as error:
        raise NotFoundError(f"The file {filename} is gone from the storage; upload it again.") from error


def fetch_upload(embedding: Embedding, settings: Settings) -> Upload:
    """Return the files of an embedding in the order of their rows.

    Raises NotFoundError if one is gone from the storage, UnavailableError if the storage cannot be reached.
    """
    return embedding.upload(lambda file: fetch(file.file_sha256, f"{file.filename} of {embedding.name!r}", settings))


def open_embedding(embedding: Embedding, settings: Settings) -> Matrix:
    """Return the matrix selected from an embedding's files; raise InvalidError if it has too many columns."""
    matrix = open_matrix(fetch_upload(embedding, settings), Selection.model_validate(embedding.selection))
    require_measurable(matrix)
    return matrix


StoreFile = Callable[[Callable[[], BinaryIO]], Stored]
"""Stores a file; called with a function that opens it anew for each attempt."""


@contextmanager
def storing_files(ledger: Ledger) -> Iterator[StoreFile]:
    """Yield a function that stores files; at the end, release those that no row refers to.

    Each call waits several minutes if the storage cannot be reached. There is no size limit, because the files are made
    from stored ones. Files that a kill leaves behind are removed a day later (``Ledger.sweep``).
    """
    stored: list[Stored] = []

    def store_file(open_file: Callable[[], BinaryIO]) -> Stored:
        file = _retry_if_unavailable(lambda: ledger.store(open_file(), sys.maxsize), "A new file could not be stored")
        stored.append(file)
        return file

    try:
        yield store_file
    finally:
        ledger.release(*(file.sha256 for file in stored))


def _retry_if_unavailable(attempt: Callable[[], Result], warning: str) -> Result:
    for seconds in RETRY_PAUSES_SECONDS:
        try:
            return attempt()
        except UnavailableError:
            logger.warning("%s; trying again in %s s.", warning, seconds)
            time.sleep(seconds)
    return attempt()


ARRAY = "array"
"""The name that readers give the array of an .npy file."""
NAME, LABEL, GROUP, ID = "name", "label", "group", "id"
"""Columns of an annotations file."""
LINES_PER_BLOCK = 4096


class _BlockStream(io.RawIOBase):
    def __init__(self, blocks: Iterator[bytes | memoryview]) -> None:
        super().__init__()
        self._blocks = blocks
        self._remaining = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._remaining:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._remaining = memoryview(block).cast("B")
        piece = self._remaining[: len(buffer)]
        buffer[: len(piece)] = piece
        self._remaining = self._remaining[len(piece) :]
        return len(piece)


def make_npy(n: int, d: int, dtype: np.dtype[Any], blocks: Iterable[NDArray[Any]]) -> BinaryIO:
    """Return an .npy file of a matrix [n, d]; ``blocks`` are its rows in order."""
    header = io.BytesIO()
    stored_dtype = dtype.newbyteorder("<")
    header_fields = {"descr": np.lib.format.dtype_to_descr(stored_dtype), "fortran_order": False, "shape": (n, d)}
    np.lib.format.write_array_header_1_0(header, header_fields)
    buffers = (np.ascontiguousarray(block, stored_dtype).data for block in blocks)
    return cast("BinaryIO", io.BufferedReader(_BlockStream(chain([header.getvalue()], buffers))))


def make_jsonl(columns: Mapping[str, Iterable[str | float]]) -> BinaryIO:
    """Return a JSONL file of the columns by name, one object per row."""
    rows = zip(*columns.values(), strict=True)
    lines = (json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    blocks = iter(lambda: "".join(islice(lines, LINES_PER_BLOCK)).encode(), b"")
    return cast("BinaryIO", io.BufferedReader(_BlockStream(blocks)))
