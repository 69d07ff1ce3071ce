"""What a validation file shares with its train file and should not, and what it lacks of it: counted row by row."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

from app.formats.columns import Column, ColumnKind
from app.formats.labels import label_text
from app.formats.table_file import Scalar

DIGEST_BYTES = 8
Rows = Callable[[], Iterator[Sequence[Scalar | None]]]
"""Starts reading the rows of a file, one value for each column."""


def count_leaks(columns: Sequence[Column], train: Rows, validation: Rows) -> list[Column]:
    """Return the columns with the validation rows whose text train has too, and whose label it never has.

    Both files are read once more. Of each different text of the train file 8 bytes are kept.
    """
    texts = [place for place, column in enumerate(columns) if column.kind is ColumnKind.TEXT]
    labels = {
        place: set(column.values)
        for place, column in enumerate(columns)
        if column.kind is ColumnKind.LABEL and column.unseen and column.values is not None
    }
    known = _digests(texts, train) if texts else {}
    also, unseen = dict.fromkeys(texts, 0), dict.fromkeys(labels, 0)
    for row in validation() if texts or labels else ():
        for place in texts:
            also[place] += (value := row[place]) is not None and _digest(value) in known[place]
        for place, names in labels.items():
            unseen[place] += (value := row[place]) is not None and label_text(value) not in names
    return [
        column.model_copy(update={"n_also_train": also.get(place, 0), "n_unseen": unseen.get(place, 0)})
        for place, column in enumerate(columns)
    ]


def _digests(places: Sequence[int], train: Rows) -> dict[int, set[bytes]]:
    known: dict[int, set[bytes]] = {place: set() for place in places}
    for row in train():
        for place in places:
            if (value := row[place]) is not None:
                known[place].add(_digest(value))
    return known


def _digest(value: Scalar) -> bytes:
    return blake2b(" ".join(str(value).split()).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
