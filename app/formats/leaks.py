"""What validation and test files share with the train file and should not, and labels it lacks: counted row by row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from app.formats.columns import Column, ColumnKind
from app.formats.labels import label_text
from app.formats.table_file import Scalar

DIGEST_BYTES = 8
Rows = Callable[[], Iterator[Sequence[Scalar | None]]]
"""Starts reading the rows of a file, one value for each column."""


def count_leaks(columns: Sequence[Column], train: Rows, validation: Rows, test: Rows | None = None) -> list[Column]:
    """Return the columns with counts of rows that leak: a text that train has too, a label that train never has.

    They are those of the validation file, and of a test file, whose texts are looked for in the validation file too.
    Each file is read once more. Of each different text of the train file 8 bytes are kept.
    """
    texts = [place for place, column in enumerate(columns) if column.kind is ColumnKind.TEXT]
    known = _digests(texts, train) if texts else {}
    counted = _count(columns, validation, known, {i: one for i, one in enumerate(columns) if one.unseen})
    found = [
        column.model_copy(update={"n_also_train": counted.also.get(i, 0), "n_unseen": counted.unseen.get(i, 0)})
        for i, column in enumerate(columns)
    ]
    if test is None:
        return found
    in_test = _count(columns, test, known, dict(enumerate(columns)))
    chosen_by = _count(columns, test, _digests(texts, validation) if texts else {}, {})
    return [
        column.model_copy(
            update={
                "n_test_also_train": in_test.also.get(i, 0),
                "n_test_also_validation": chosen_by.also.get(i, 0),
                "n_test_unseen": in_test.unseen.get(i, 0),
            }
        )
        for i, column in enumerate(found)
    ]


class _Counted(NamedTuple):
    """Rows by the place of a column: with a text that is known, and with a label that train lacks."""

    also: dict[int, int]
    unseen: dict[int, int]


def _count(
    columns: Sequence[Column], rows: Rows, known: Mapping[int, set[bytes]], labelled: Mapping[int, Column]
) -> _Counted:
    labels = {
        place: set(column.values)
        for place, column in labelled.items()
        if column.kind is ColumnKind.LABEL and column.values is not None
    }
    also, unseen = dict.fromkeys(known, 0), dict.fromkeys(labels, 0)
    for row in rows() if known or labels else ():
        for place, texts in known.items():
            also[place] += (value := row[place]) is not None and text_digest(value) in texts
        for place, names in labels.items():
            unseen[place] += (value := row[place]) is not None and label_text(value) not in names
    return _Counted(also, unseen)


def _digests(places: Sequence[int], train: Rows) -> dict[int, set[bytes]]:
    known: dict[int, set[bytes]] = {place: set() for place in places}
    for row in train():
        for place in places:
            if (value := row[place]) is not None:
                known[place].add(text_digest(value))
    return known


def text_digest(value: Scalar) -> bytes:
    """Return what two equal texts have in common, however their words are spaced."""
    return blake2b(" ".join(str(value).split()).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
