"""What one column of one file holds, gathered value by value."""

import sys
from math import isfinite

from app.formats.columns import ColumnKind
from app.formats.contents import MAX_DISTINCT, examples
from app.formats.labels import MAX_LABELS, NUMBER, label_text, sort_labels
from app.formats.span import read_span
from app.formats.table_file import Scalar

MOST_CLASSES = 20
"""More different values, of several words each, are texts that come again and not classes."""
UNLABELLED = "-1"
"""What published test files have in place of labels that are kept back."""


class Profile:
    """Counts the values of a column; of different ones it keeps no more than 1,001."""

    def __init__(self) -> None:
        self.n = 0
        self.n_missing = 0
        self.not_number: str | None = None
        """The first value that is no finite number, cut short."""
        self._distinct: dict[str, None] = {}
        self._all_spans = True

    def add(self, value: Scalar | None) -> None:
        """Take the value of the next row."""
        self.n += 1
        if value is None:
            self.n_missing += 1
            return
        if self.n_distinct <= MAX_DISTINCT:
            self._distinct[label_text(value)] = None
        if self.not_number is None and not is_number(value):
            (self.not_number,) = examples([str(value)])
        self._all_spans = self._all_spans and isinstance(value, str) and read_span(value) is not None

    @property
    def n_distinct(self) -> int:
        """Different values; one more than 1,000 means more than 1,000."""
        return len(self._distinct)

    @property
    def examples(self) -> list[str]:
        """The first three different values, cut short; of answers the text of the first."""
        if self.kind is ColumnKind.SPAN:
            return examples(span.texts[0] for text in self._distinct if (span := read_span(text)))
        return examples(self._distinct)

    @property
    def values(self) -> list[str] | None:
        """The different values in order, None if they are too many for labels."""
        return sort_labels(self._distinct) if self.n_distinct <= MAX_LABELS else None

    @property
    def kind(self) -> ColumnKind:
        """Labels are few and come again; what is left is numbers or text, but for answers."""
        if self._all_spans and self._distinct:
            return ColumnKind.SPAN
        if self.n_distinct <= min(MAX_LABELS, self.n // 2) and not self._has_fractions:
            return ColumnKind.LABEL
        return ColumnKind.NUMBER if self._distinct and self.not_number is None else ColumnKind.TEXT

    @property
    def holds_texts(self) -> bool:
        """Whether values are texts to read, also where each comes several times, as texts of pairs do."""
        if self.kind is ColumnKind.LABEL and self.n_distinct > MOST_CLASSES and self.not_number is not None:
            return 2 * sum(" " in value for value in self._distinct) > self.n_distinct
        return self.kind is ColumnKind.TEXT

    @property
    def _has_fractions(self) -> bool:
        return self.not_number is None and any(not float(value).is_integer() for value in self._distinct)

    def unlabelled_beside(self, train: "Profile") -> bool:
        """Whether no row here is labelled: all values are missing, or -1 where those of ``train`` never are."""
        return not self._distinct or (set(self._distinct) == {UNLABELLED} and UNLABELLED not in train._distinct)

    def lacks(self, values: list[str]) -> list[str]:
        """Return up to three of the values here that are not among ``values``."""
        return sort_labels(self._distinct.keys() - values)[:3]


def is_number(value: Scalar) -> bool:
    """Whether a value is a finite number, or the text of one."""
    if isinstance(value, str):
        text = value.strip()
        return NUMBER.fullmatch(text) is not None and isfinite(float(text))
    return not isinstance(value, bool) and abs(value) <= sys.float_info.max
