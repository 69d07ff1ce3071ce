"""What an embeddings file offers, whatever its format."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

Block = NDArray[Any]
"""Some rows of a matrix [k, d]."""

MAX_DISTINCT = 1000
"""Distinct values are counted up to one more than this, which then means "more than 1,000"."""
EXAMPLE_CHARACTERS = 60
MAX_ROWS = 50_000_000
MAX_COLUMN_BLOCK_BYTES = 64 * 2**20
"""Of the columns that are held at once where a matrix stored row after row is read transposed."""


class Part(BaseModel):
    """An array [n, d] that could be the vectors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    n: int
    d: int
    dtype: str


class Annotation(BaseModel):
    """A column, or an array of one dimension, that could be the names or the labels of the rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    n: int
    n_distinct: int
    """1,001 means more than 1,000."""
    examples: list[str]


class Offer(Protocol):
    """What can be chosen from. Arrays and lists are ``parts``, other tables have ``numeric_columns``: never both."""

    @property
    def parts(self) -> list[Part]:
        """Arrays that could be the vectors."""
        ...

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that could be the vectors together."""
        ...

    @property
    def annotations(self) -> list[Annotation]:
        """What could name or label the rows."""
        ...


class Contents(Offer, Protocol):
    """An opened file whose structure is checked and whose values are yet to be read, again and again if need be."""

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        """Rows and columns as stored."""
        ...

    def dtype(self, vectors: str | list[str]) -> str:
        """The name of the type as stored."""
        ...

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the matrix, or its transpose, from top to bottom in blocks [at most ``rows``, columns]."""
        ...

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of an annotation as text, one a row."""
        ...


def annotation_of(name: str, n: int, values: Iterable[str]) -> Annotation:
    """Describe a column by its values, of which no more are taken than it needs."""
    distinct: dict[str, None] = {}
    for value in values:
        distinct[value] = None
        if len(distinct) > MAX_DISTINCT:
            break
    return Annotation(name=name, n=n, n_distinct=len(distinct), examples=examples(distinct))


def examples(values: Iterable[str]) -> list[str]:
    """Return the first three values, cut short."""
    return [value[:EXAMPLE_CHARACTERS] for value in islice(values, 3)]
