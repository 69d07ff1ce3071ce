"""The ids by which ground truth names the rows of vectors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, shown
from isoscope.files.matrix import Matrix

ID_NAMES = ("id", "_id", "ids", "doc_id", "docid", "corpus-id", "corpus_id", "query-id", "query_id", "qid")


def id_column(columns: Iterable[str]) -> str | None:
    """Return the likeliest column of ids; None where no name tells of any."""
    lower = {name.lower(): name for name in reversed(list(columns))}
    return next((lower[name] for name in ID_NAMES if name in lower), None)


@dataclass(frozen=True)
class RowIds:
    """What the rows of a file are called."""

    filename: str
    values: list[str]
    column: str | None
    """Where the ids come from; None: they are the numbers of the rows."""

    def rows(self, ids: Sequence[str]) -> list[int]:
        """Return the row of each id, -1 where there is none."""
        places = {name: row for row, name in enumerate(self.values)}
        return [places.get(name, -1) for name in ids]

    @property
    def called(self) -> str:
        """Where the ids come from, for an error."""
        numbers = f"Rows of {self.filename} are called by their numbers from 0"
        return numbers if self.column is None else f"Ids of {self.filename} are those of {shown(self.column)}"

    def require_unique(self, what: str, advice: str) -> None:
        """Raise InvalidError where an id names several rows, with what to do about it."""
        name, count = Counter(self.values).most_common(1)[0]
        if count > 1:
            raise InvalidError(
                f"{shown(name)} names {count:,} rows of {self.filename}: an id must name one row. Remove the others, "
                f"or {advice}.",
                what,
            )


def read_ids(matrix: Matrix, filename: str, asked: str | None, names: str | None, what: str = "ids") -> RowIds:
    """Return the ids of a matrix's rows; their numbers are those in its files.

    Args:
        matrix: the rows.
        filename: what the user calls its files.
        asked: the column of ids; None takes the likeliest, or the numbers of the rows.
        names: the column that names the rows, which is taken before the numbers.
        what: the field of errors.

    Raises:
        InvalidError: there is no such column.

    """
    offered = {each.name: each for each in matrix.contents.annotations if each.n == matrix.n}
    if asked is not None and asked not in offered:
        columns = f"Columns are: {listed(offered)}." if offered else "It has no such columns."
        raise InvalidError(f"{filename} has no column {shown(asked)} of ids. {columns}", what)
    column = asked or id_column(offered) or names
    numbers = range(matrix.n) if matrix.row_places is None else matrix.row_places
    values = [str(row) for row in numbers] if column is None else list(matrix.contents.values(column))
    return RowIds(filename, values, column)
