"""What columns of names and labels hold, gathered row by row."""

from collections.abc import Mapping, Sequence

from app.formats.contents import MAX_DISTINCT, Annotation, annotation_of
from app.formats.wording import storable

PRUNED_EVERY_ROWS = 1000


def cell_text(value: object) -> str:
    """Return a value as a name or a label; 3.0 is 3, as whole numbers beside missing ones are stored."""
    if isinstance(value, str):
        return storable(value).strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


class Tally:
    """Counts the rows of a table, and the different values of some of its columns up to one more than 1,000."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self.n = 0
        self._distinct: dict[str, dict[str, None]] = {name: {} for name in places}
        self._open = [(i, self._distinct[name]) for name, i in places.items()]

    def add(self, row: Sequence[object]) -> None:
        """Take the values of the next row, which lie at the places of their columns."""
        self.n += 1
        for i, values in self._open:
            values[cell_text(row[i])] = None
        if self.n % PRUNED_EVERY_ROWS == 0:
            self._open = [(i, values) for i, values in self._open if len(values) <= MAX_DISTINCT]

    def annotations(self) -> list[Annotation]:
        """Describe the columns by the rows taken so far."""
        return [annotation_of(name, self.n, values) for name, values in self._distinct.items()]
