"""What one column of one file holds, gathered value by value."""

from app.formats.columns import ColumnKind
from app.formats.contents import MAX_DISTINCT, examples
from app.formats.labels import MAX_LABELS, NUMBER, label_text, sort_labels
from app.formats.table_file import Scalar


class Profile:
    """Counts the values of a column; of different ones it keeps no more than 1,001."""

    def __init__(self) -> None:
        self.n = 0
        self.n_missing = 0
        self._distinct: dict[str, None] = {}
        self._all_numbers = True

    def add(self, value: Scalar | None) -> None:
        """Take the value of the next row."""
        self.n += 1
        if value is None:
            self.n_missing += 1
        elif self.n_distinct <= MAX_DISTINCT:
            label = label_text(value)
            self._distinct[label] = None
            self._all_numbers = self._all_numbers and NUMBER.fullmatch(label) is not None

    @property
    def n_distinct(self) -> int:
        """Different values; one more than 1,000 means more than 1,000."""
        return len(self._distinct)

    @property
    def examples(self) -> list[str]:
        """The first three different values, cut short."""
        return examples(self._distinct)

    @property
    def values(self) -> list[str] | None:
        """The different values in order, None if they are too many for labels."""
        return sort_labels(self._distinct) if self.n_distinct <= MAX_LABELS else None

    @property
    def kind(self) -> ColumnKind:
        """Labels are few and come again; what is left is numbers or text."""
        if self.n_distinct <= min(MAX_LABELS, self.n // 2) and not self._has_fractions:
            return ColumnKind.LABEL
        return ColumnKind.NUMBER if self._all_numbers and self._distinct else ColumnKind.TEXT

    @property
    def _has_fractions(self) -> bool:
        return self._all_numbers and any(not float(value).is_integer() for value in self._distinct)

    def lacks(self, values: list[str]) -> list[str]:
        """Return up to three of the values here that are not among ``values``."""
        return sort_labels(self._distinct.keys() - values)[:3]
