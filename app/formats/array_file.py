"""The contents of a file of arrays: which could be the vectors, which name or label the rows."""

from collections.abc import Iterator, Sequence
from typing import cast

from app.formats.arrays import Array, shape_text
from app.formats.contents import Annotation, Block, Part, annotation_of
from app.formats.wording import shown, storable
from isoscope.core.errors import InvalidError

MAX_LISTED = 5


class ArrayFile:
    """The arrays of an npy, npz, safetensors or HDF5 file, as ``app.formats.contents.Contents``."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        if unfit := [array.name for array in arrays if storable(array.name) != array.name]:
            raise InvalidError(f"The array name {shown(unfit[0])} is not Unicode text: save it under another name.")
        matrices = [array for array in arrays if array.is_matrix]
        if not matrices:
            raise InvalidError(_why_no_matrix(arrays))
        self._arrays = {array.name: array for array in arrays}
        self.parts = [
            Part(name=array.name, n=array.shape[0], d=array.shape[1], dtype=array.type_name) for array in matrices
        ]
        self.numeric_columns: list[str] = []
        self.annotations: list[Annotation] = [
            annotation_of(array.name, array.shape[0], array.values()) for array in arrays if array.is_annotation
        ]

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        """Rows and columns of the array called ``vectors``."""
        return cast("tuple[int, int]", self._array(vectors).shape)

    def dtype(self, vectors: str | list[str]) -> str:
        """The type of the array called ``vectors``."""
        return self._array(vectors).type_name

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the array called ``vectors``, or its transpose, from top to bottom."""
        return self._array(vectors).blocks(rows, transpose=transpose)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of an array of one dimension."""
        return self._array(annotation).values()

    def _array(self, name: str | list[str]) -> Array:
        return self._arrays[cast("str", name)]  # ``Selection.check`` lets only names of arrays pass


def _why_no_matrix(arrays: Sequence[Array]) -> str:
    """Say what is there instead of a matrix of numbers, and how to make one of it."""
    if not arrays:
        return "The file holds no array: expected one with a row for each vector. Write it again."
    nearest = max(arrays, key=lambda array: (array.is_numeric, len(array.shape) == 2, array.size_bytes))
    there = ", ".join(
        f"{shown(each.name)} ({shape_text(each.shape)}, {each.type_name})" for each in arrays[:MAX_LISTED]
    )
    return f"Expected an array of numbers with rows and columns, found {there}: {_advice(nearest)}."


def _advice(array: Array) -> str:
    """Say how to turn the array that comes nearest into a matrix."""
    if not array.is_numeric:
        return f"{array.type_name} is not a type of real numbers that is read here; convert it to float32"
    if len(array.shape) == 2:
        return "it has no rows or no columns, so there is nothing to measure"
    if len(array.shape) > 2:
        return "make it two-dimensional with x.reshape(-1, x.shape[-1]), one vector a row, or save one layer of it"
    return "one dimension is not a matrix; use x.reshape(-1, d) with d values a vector, or x.reshape(-1, 1)"
