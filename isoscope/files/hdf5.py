"""Arrays in HDF5: a tree of groups and datasets. Only data in the file itself is read.

An HDF5 file may name other files to read from and filters to load as programs. Neither is done here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import quote
from isoscope.files.arrays import ANNOTATION_ROWS, Array, ArrayFile, value_text
from isoscope.files.compressed import require_plausible_size
from isoscope.files.contents import Block, transpose_blocks
from isoscope.files.text import Quoting

MAX_OBJECTS = 1000
MAX_DEPTH = 32
MAX_CHUNK_BYTES = 256 * 2**20
CACHE_BYTES = 64 * 2**20
# Read few texts at once: thousands of them may refer to one stored gigabyte.
TEXT_ROWS = 256
FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF}

# Errors that h5py raises for damaged files.
HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, SystemError, AttributeError)

for _ in range(h5py.h5pl.size()):
    h5py.h5pl.remove(0)  # leave no folder from which to load filters


@dataclass(frozen=True)
class Hdf5Array(Array):
    """A dataset; ``name`` is its path in the tree."""

    path: Path
    is_text: bool

    @property
    def is_annotation(self) -> bool:
        return len(self.shape) == 1 and self.shape[0] > 0 and (self.is_text or self.dtype.kind in "biu")

    def blocks(self, rows: int, *, transpose: bool) -> Iterator[Block]:
        if transpose:
            n, d = self.shape
            return transpose_blocks(partial(self._rows, rows), n, d, rows)
        return self._rows(rows)

    def values(self) -> Iterator[str]:
        for block in self._rows(TEXT_ROWS if self.dtype.kind == "O" else ANNOTATION_ROWS):
            yield from map(value_text, block.tolist())

    def _rows(self, step: int, columns: slice | None = None) -> Iterator[Block]:
        with _open(self.path) as file:
            dataset = file[self.name]
            for start in range(0, self.shape[0], step):
                rows = slice(start, min(start + step, self.shape[0]))
                yield dataset[rows] if columns is None else dataset[rows, columns]


def open_vectors(path: Path, _: Quoting | None = None) -> ArrayFile:
    return ArrayFile(read_hdf5(path))


def read_hdf5(path: Path) -> list[Hdf5Array]:
    arrays = []
    with _open(path) as file:
        for name, dataset in _datasets(file):
            properties = dataset.id.get_create_plist()
            if properties.get_layout() == h5py.h5d.VIRTUAL or properties.get_external_count():
                raise _external_data_error(f"the values of {quote(name)} lie in other files")
            filters = {properties.get_filter(i)[0] for i in range(properties.get_nfilters())}
            if not filters <= FILTERS:
                raise InvalidError(
                    f"{quote(name)} is compressed by a filter that is a plugin of HDF5 "
                    f"(number {min(filters - FILTERS)}), which is never loaded here: write it with "
                    'compression="gzip", "lzf", or none.'
                )
            dtype: np.dtype[Any] = dataset.dtype
            is_text = h5py.check_string_dtype(dtype) is not None
            array = Hdf5Array(name, dataset.shape, dtype, "text" if is_text else dtype.name, path, is_text)
            if dataset.chunks is not None and np.prod(dataset.chunks, dtype=object) * dtype.itemsize > MAX_CHUNK_BYTES:
                raise TooLargeError(
                    f"{quote(name)} is stored in pieces of more than {MAX_CHUNK_BYTES:,} bytes, each of which has to "
                    "fit into memory: write it with smaller chunks."
                )
            stored_bytes = min(dataset.id.get_storage_size(), path.stat().st_size)
            require_plausible_size(quote(name), array.size_bytes, stored_bytes)
            arrays.append(array)
    return arrays


@contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, "r", locking=False, rdcc_nbytes=CACHE_BYTES) as file:
            yield file
    except HDF5_ERRORS as error:
        reason = str(error).partition("\n")[0][:160]
        raise InvalidError(
            f"The HDF5 file cannot be read ({reason}): it was cut off, altered, or is something else. Write it again."
        ) from None


def _datasets(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yield each dataset that hard links reach, only once if it has several paths."""
    addresses = {_address(file)}
    pending: list[tuple[str, h5py.Group, int]] = [("", file, 0)]
    while pending:
        prefix, group, depth = pending.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise _external_data_error(f"{quote(prefix + name)} is a link to another file")
            if not isinstance(link, h5py.HardLink):
                continue
            node = group[name]
            if (address := _address(node)) in addresses:
                continue
            addresses.add(address)
            if len(addresses) > MAX_OBJECTS or depth > MAX_DEPTH:
                raise TooLargeError(
                    f"The file has more than {MAX_OBJECTS:,} arrays and groups, or more than {MAX_DEPTH} groups in one "
                    "another: write the arrays you want measured into a separate file."
                )
            if isinstance(node, h5py.Group):
                pending.append((f"{prefix}{name}/", node, depth + 1))
            elif isinstance(node, h5py.Dataset) and node.shape is not None:
                yield prefix + name, node


def _address(node: Any) -> tuple[int, int]:
    info = h5py.h5o.get_info(node.id)
    return info.fileno, info.addr


def _external_data_error(clause: str) -> InvalidError:
    return InvalidError(f"In the HDF5 file {clause}, which is never opened here: copy the values into one file.")
