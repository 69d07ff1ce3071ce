"""Several files as one: the rows of each below those of the one before."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from app.formats.contents import MAX_DISTINCT, Annotation, Block, Contents, Part, annotation_of
from app.formats.row_file import transposed
from app.formats.wording import blaming, listed
from isoscope.core.errors import InvalidError

T = TypeVar("T")


class Shards:
    """Files of the same arrays or columns, as ``app.formats.contents.Contents``."""

    def __init__(self, files: list[tuple[str, Contents]]) -> None:
        """Take the name and the contents of each file, in the order of their rows."""
        (first_name, first), *others = files
        for name, other in others:
            if _layout(other) != _layout(first):
                raise InvalidError(
                    f"{name} holds {', '.join(_offered(other))}, but {first_name} holds {', '.join(_offered(first))}: "
                    "the files of one embedding need the same arrays or columns. Upload the others apart.",
                    "file",
                )
        self._files = files
        self.parts = [
            Part(name=same[0].name, n=sum(part.n for part in same), d=same[0].d, dtype=same[0].dtype)
            for same in zip(*(contents.parts for _, contents in files), strict=True)
        ]
        self.numeric_columns = first.numeric_columns
        described = [{each.name: each for each in contents.annotations} for _, contents in files]
        common = [name for name in described[0] if all(name in there for there in described)]
        self.annotations = [self._annotation(name, [there[name] for there in described]) for name in common]

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        """Rows of all files, columns of each."""
        shapes = [contents.shape(vectors) for _, contents in self._files]
        return sum(n for n, _ in shapes), shapes[0][1]

    def dtype(self, vectors: str | list[str]) -> str:
        """The type, which is the same in all files."""
        return self._files[0][1].dtype(vectors)

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the rows of one file after the other, or the transpose of them all."""
        if not transpose:
            return self._chained(lambda contents: contents.blocks(vectors, rows, transpose=False))
        return transposed(partial(self._columns, vectors, rows), *self.shape(vectors), rows)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values in one file after the other."""
        return self._chained(lambda contents: contents.values(annotation))

    def _chained(self, read: Callable[[Contents], Iterator[T]]) -> Iterator[T]:
        for name, contents in self._files:
            with blaming(name):
                yield from read(contents)

    def _columns(self, vectors: str | list[str], rows: int, chosen: slice) -> Iterator[Block]:
        return (block[:, chosen] for block in self.blocks(vectors, rows, transpose=False))

    def _annotation(self, name: str, found: list[Annotation]) -> Annotation:
        n = sum(each.n for each in found)
        if (most := max(found, key=lambda each: each.n_distinct)).n_distinct > MAX_DISTINCT:
            return most.model_copy(update={"n": n})
        return annotation_of(name, n, self.values(name))


def _layout(contents: Contents) -> list[tuple[str, int, str]] | list[str]:
    """Return what has to be the same in all files."""
    return [(part.name, part.d, part.dtype) for part in contents.parts] or contents.numeric_columns


def _offered(contents: Contents) -> list[str]:
    """Return the same in words, cut short."""
    if contents.parts:
        return [f"{part.name!r} of {part.d:,} dimensions ({part.dtype})" for part in contents.parts]
    columns = contents.numeric_columns
    return [f"{len(columns):,} columns of numbers, {listed(columns)}"]
