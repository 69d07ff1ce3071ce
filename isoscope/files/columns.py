"""Describe the columns of data sets and texts: values, labels, lengths, and rows that leak between files."""

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Annotated, NamedTuple, Self

from pydantic import Field, NonNegativeInt, model_validator

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, prefixed_errors, quote
from isoscope.files.contents import MAX_DISTINCT, examples
from isoscope.files.span import read_span
from isoscope.files.strict import Frozen
from isoscope.files.table import Scalar, Table
from isoscope.files.text import Quoting, QuotingBySplit, detect_quotes, settle_quoting
from isoscope.files.upload_formats import Role, detect

MAX_LABELS = 200

WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
# Lower bounds of the bins for text lengths; the last bin is open.
LENGTH_EDGES = sorted({2**k for k in range(21)} | {3 * 2**k for k in range(20)} | {0})
# More distinct values than this, if they have several words each, are repeated texts rather than classes.
MAX_CLASSES = 20
# Stands for withheld labels in published test files.
UNLABELED = "-1"
DIGEST_BYTES = 8
NO_ROWS = "the file names columns but has no rows: expected at least one."


class ColumnKind(StrEnum):
    """The likely use of a column, so that forms can propose it."""

    TEXT = "text"
    NUMBER = "number"
    LABEL = "label"
    SPAN = "span"


class TextLengths(Frozen):
    """Lengths of texts in characters: rows per bin of ``LENGTH_EDGES``."""

    n: NonNegativeInt
    mean: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    longest: NonNegativeInt
    counts: Annotated[list[NonNegativeInt], Field(max_length=len(LENGTH_EDGES))]


class Column(Frozen):
    """A column that all files have. Null counts: not applicable, or stored by an earlier version."""

    name: str
    kind: ColumnKind
    # In the train file; 1,001 means more than 1,000.
    n_distinct: int
    examples: list[str]
    # Distinct values of the train file as labels, in order; null above 200.
    values: list[str] | None
    train_counts: list[NonNegativeInt] | None = None
    validation_counts: list[NonNegativeInt] | None = None
    lengths: TextLengths | None = None
    # Up to three values of the validation file that the train file lacks.
    unseen: list[str]
    # An example, cut short, of a value that is not a finite number.
    not_number: str | None = None
    n_missing_train: int
    n_missing_validation: int
    n_unseen: int = 0
    n_also_train: int = 0
    n_missing_test: int = 0
    n_test_unseen: int = 0
    n_test_also_train: int = 0
    n_test_also_validation: int = 0
    test_unlabelled: bool = False

    @model_validator(mode="after")
    def _require_a_count_per_value(self) -> Self:
        for counts in (self.train_counts, self.validation_counts):
            if counts is not None and len(counts) != len(self.values or ()):
                raise ValueError(f"expected a count for each of {len(self.values or ())} values, got {len(counts)}")
        return self

    @property
    def only_class(self) -> str | None:
        """Return the class of all labeled validation rows; None if they differ or were not counted."""
        counted = zip(self.values or (), self.validation_counts or (), strict=False)
        present = [value for value, n in counted if n]
        return present[0] if len(present) == 1 and not self.n_unseen else None


def label_text(value: object) -> str:
    """Return the name of a label: ``1``, ``1.0``, ``"1"`` and ``"1.0 "`` are one label in all formats."""
    text = str(value).strip()
    whole_number = WHOLE_NUMBER.fullmatch(text)
    return whole_number[1] if whole_number else text


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Return labels in an order that does not depend on the file: numbers by size, then texts."""
    return sorted(labels, key=lambda label: (0, float(label), label) if NUMBER.fullmatch(label) else (1, 0.0, label))


RowReader = Callable[[], Iterator[Sequence[Scalar | None]]]


class ColumnStats:
    """Counts of the values of a column; keeps at most 1,001 distinct values."""

    def __init__(self) -> None:
        self.n = 0
        self.n_missing = 0
        self.not_number: str | None = None
        self.distinct: dict[str, int] = {}
        self._lengths = [0] * len(LENGTH_EDGES)
        self._characters = 0
        self._longest = 0
        self._all_spans = True

    def add(self, value: Scalar | None) -> None:
        self.n += 1
        if value is None:
            self.n_missing += 1
            return
        if self.n_distinct <= MAX_DISTINCT:
            text = label_text(value)
            self.distinct[text] = self.distinct.get(text, 0) + 1
        length = len(value) if isinstance(value, str) else 0
        self._lengths[bisect_right(LENGTH_EDGES, length) - 1] += 1
        self._characters += length
        self._longest = max(self._longest, length)
        if self.not_number is None:
            if isinstance(value, str):
                text = value.strip()
                is_number = NUMBER.fullmatch(text) is not None and isfinite(float(text))
            else:
                is_number = not isinstance(value, bool) and abs(value) <= sys.float_info.max
            if not is_number:
                (self.not_number,) = examples([str(value)])
        self._all_spans = self._all_spans and isinstance(value, str) and read_span(value) is not None

    @property
    def n_distinct(self) -> int:
        return len(self.distinct)

    @property
    def examples(self) -> list[str]:
        if self.kind is ColumnKind.SPAN:
            return examples(span.texts[0] for text in self.distinct if (span := read_span(text)))
        return examples(self.distinct)

    @property
    def values(self) -> list[str] | None:
        return sort_labels(self.distinct) if self.n_distinct <= MAX_LABELS else None

    def counts_of(self, values: Sequence[str] | None) -> list[int] | None:
        if values is None or self.n_distinct > MAX_DISTINCT:
            return None
        return [self.distinct.get(value, 0) for value in values]

    @property
    def lengths(self) -> TextLengths | None:
        n = self.n - self.n_missing
        if not n or not (self.kind is ColumnKind.TEXT or self.holds_texts):
            return None
        last = max(bin_index for bin_index, rows in enumerate(self._lengths) if rows)
        return TextLengths(n=n, mean=self._characters / n, longest=self._longest, counts=self._lengths[: last + 1])

    @property
    def kind(self) -> ColumnKind:
        if self._all_spans and self.distinct:
            return ColumnKind.SPAN
        all_numbers = self.not_number is None
        has_fractions = all_numbers and any(not float(value).is_integer() for value in self.distinct)
        if self.n_distinct <= min(MAX_LABELS, self.n // 2) and not has_fractions:
            return ColumnKind.LABEL
        return ColumnKind.NUMBER if self.distinct and self.not_number is None else ColumnKind.TEXT

    @property
    def holds_texts(self) -> bool:
        if self.kind is ColumnKind.LABEL and self.n_distinct > MAX_CLASSES and self.not_number is not None:
            return 2 * sum(" " in value for value in self.distinct) > self.n_distinct
        return self.kind is ColumnKind.TEXT


def count_leaks(
    columns: Sequence[Column], train: RowReader, validation: RowReader, test: RowReader | None = None
) -> list[Column]:
    """Return columns with the number of rows whose text is also in train, and of those whose label is not.

    Test texts are also compared with the validation file. Each file is read once more.
    """
    text_indices = [index for index, column in enumerate(columns) if column.kind is ColumnKind.TEXT]
    train_digests = _text_digests(text_indices, train) if text_indices else {}
    columns_with_unseen = {index: column for index, column in enumerate(columns) if column.unseen}
    validation_counts = _count_rows(columns, validation, train_digests, columns_with_unseen)
    with_validation = [
        column.model_copy(
            update={"n_also_train": validation_counts.shared.get(i, 0), "n_unseen": validation_counts.unseen.get(i, 0)}
        )
        for i, column in enumerate(columns)
    ]
    if test is None:
        return with_validation
    test_counts = _count_rows(columns, test, train_digests, dict(enumerate(columns)))
    validation_overlap = _count_rows(columns, test, _text_digests(text_indices, validation) if text_indices else {}, {})
    return [
        column.model_copy(
            update={
                "n_test_also_train": test_counts.shared.get(i, 0),
                "n_test_also_validation": validation_overlap.shared.get(i, 0),
                "n_test_unseen": test_counts.unseen.get(i, 0),
            }
        )
        for i, column in enumerate(with_validation)
    ]


def stats_of(table: Table) -> tuple[int, dict[str, ColumnStats]]:
    """Return the number of rows of a file and the statistics of each column; raise InvalidError without rows."""
    stats = [ColumnStats() for _ in table.columns]
    for row in table.rows():
        for column, value in zip(stats, row, strict=True):
            column.add(value)
    if stats[0].n == 0:
        raise InvalidError(NO_ROWS)
    return stats[0].n, dict(zip(table.columns, stats, strict=True))


class _LeakCounts(NamedTuple):
    """Counts of rows by column index: rows with a text of another file, and rows with a label that train lacks."""

    shared: dict[int, int]
    unseen: dict[int, int]


def _count_rows(
    columns: Sequence[Column], rows: RowReader, digests: Mapping[int, set[bytes]], labeled_columns: Mapping[int, Column]
) -> _LeakCounts:
    labels = {
        index: set(column.values)
        for index, column in labeled_columns.items()
        if column.kind is ColumnKind.LABEL and column.values is not None
    }
    shared, unseen = dict.fromkeys(digests, 0), dict.fromkeys(labels, 0)
    for row in rows() if digests or labels else ():
        for index, other_digests in digests.items():
            shared[index] += (value := row[index]) is not None and text_digest(value) in other_digests
        for index, train_labels in labels.items():
            unseen[index] += (value := row[index]) is not None and label_text(value) not in train_labels
    return _LeakCounts(shared, unseen)


def _text_digests(indices: Sequence[int], rows: RowReader) -> dict[int, set[bytes]]:
    digests: dict[int, set[bytes]] = {index: set() for index in indices}
    for row in rows():
        for index in indices:
            if (value := row[index]) is not None:
                digests[index].add(text_digest(value))
    return digests


def text_digest(value: Scalar) -> bytes:
    """Return a digest of a text that ignores spacing."""
    return blake2b(" ".join(str(value).split()).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


class DatasetDescription(Frozen):
    """Two or three files of one task."""

    n_train: int
    n_validation: int
    n_test: int | None = None
    columns: list[Column]
    quoting: dict[str, Quoting]


class TextsDescription(Frozen):
    """One file of texts, described like a train file."""

    n: int
    columns: list[Column]
    quoting: Quoting | None


def describe_texts(path: Path, filename: str, quoting: Quoting | None = None) -> TextsDescription:
    """Describe the columns of texts, one a line or a table, in the sandbox. Errors have the field ``file``."""
    with prefixed_errors(filename, "file"):
        table = open_table(path, filename, Role.TEXTS, quoting)
        n, stats_by_name = stats_of(table)
    columns = [_make_column(name, stats, None) for name, stats in stats_by_name.items()]
    return TextsDescription(n=n, columns=columns, quoting=table.quoting)


def describe_dataset(
    train_path: Path,
    train_filename: str,
    validation_path: Path,
    validation_filename: str,
    test_path: Path | None = None,
    test_filename: str = "",
    quoting: Quoting | QuotingBySplit | None = None,
) -> DatasetDescription:
    """Describe the columns that the files share, in the sandbox. Errors have the field of the file at fault."""
    files = {"train": (train_path, train_filename), "validation": (validation_path, validation_filename)}
    files |= {} if test_path is None else {"test": (test_path, test_filename)}
    quoting_by_split = dict(quoting) if isinstance(quoting, Mapping) else detect_quoting_by_split(files, quoting)
    tables = {}
    for split, (path, filename) in files.items():
        with prefixed_errors(filename, split):
            tables[split] = open_table(path, filename, quoting=quoting_by_split.get(split))
    with prefixed_errors(train_filename, "train"):
        n_train, train = stats_of(tables["train"])
    with prefixed_errors(validation_filename, "validation"):
        n_validation, validation = stats_of(tables["validation"])
    names = [name for name in train if name in validation]
    lacks_texts = any(column.holds_texts for column in train.values()) and not any(
        train[name].holds_texts for name in names
    )
    if not names or lacks_texts:
        raise InvalidError(
            f"The two files have no column {'of texts ' if names else ''}in common: the train file has "
            f"{listed(train)}, the validation file {listed(validation)}. Give the columns the same names in both.",
            field="validation",
        )
    n_test, test = None, None
    if "test" in tables:
        with prefixed_errors(test_filename, "test"):
            n_test, test = stats_of(tables["test"])
            if missing := [name for name in names if name not in test]:
                raise InvalidError(
                    f"No column named {quote(missing[0])}, which the train and validation files have. Columns are: "
                    f"{listed(test)}. A test file needs all columns of the others, labels too."
                )
    shared = [_make_column(name, train[name], validation[name], None if test is None else test[name]) for name in names]
    readers = {split: partial(table.rows, names) for split, table in tables.items()}
    columns = count_leaks(shared, readers["train"], readers["validation"], readers.get("test"))
    return DatasetDescription(
        n_train=n_train, n_validation=n_validation, n_test=n_test, columns=columns, quoting=quoting_by_split
    )


def detect_quoting_by_split(files: Mapping[str, tuple[Path, str]], chosen: Quoting | None = None) -> dict[str, Quoting]:
    quotes_by_split = {}
    for split, (path, filename) in files.items():
        with prefixed_errors(filename, split):
            if detect(path, filename, Role.ROWS).name == "tsv":
                quotes_by_split[split] = detect_quotes(path)
    return settle_quoting(quotes_by_split, chosen)


def read_columns(
    path: Path, filename: str, columns: list[str], role: Role = Role.ROWS, quoting: Quoting | None = None
) -> dict[str, list[Scalar | None]]:
    """Return the values of columns; missing values are None."""
    table = open_table(path, filename, role, quoting)
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InvalidError(f"{filename} has no column {quote(missing[0])}: it has {listed(table.columns)}.")
    values: list[list[Scalar | None]] = [[] for _ in columns]
    for row in table.rows(columns):
        for column, value in zip(values, row, strict=True):
            column.append(value)
    return dict(zip(columns, values, strict=True))


def open_table(path: Path, filename: str, role: Role = Role.ROWS, quoting: Quoting | None = None) -> Table:
    return detect(path, filename, role).open_table(path, quoting)


def _make_column(
    name: str, train: ColumnStats, validation: ColumnStats | None, test: ColumnStats | None = None
) -> Column:
    values = train.values
    kind = train.kind
    if kind is ColumnKind.SPAN and validation is not None and validation.kind is not ColumnKind.SPAN:
        kind = ColumnKind.TEXT
    examples_of_text = (stats.not_number for stats in (train, validation, test) if stats is not None)
    return Column(
        name=name,
        kind=kind,
        n_distinct=train.n_distinct,
        examples=train.examples,
        values=values,
        train_counts=train.counts_of(values),
        validation_counts=None if validation is None else validation.counts_of(values),
        lengths=train.lengths,
        unseen=[] if values is None or validation is None else sort_labels(validation.distinct.keys() - values)[:3],
        not_number=next((example for example in examples_of_text if example is not None), None),
        n_missing_train=train.n_missing,
        n_missing_validation=0 if validation is None else validation.n_missing,
        n_missing_test=0 if test is None else test.n_missing,
        # All test labels are missing, or all are -1 and no train label is.
        test_unlabelled=test is not None
        and (not test.distinct or (set(test.distinct) == {UNLABELED} and UNLABELED not in train.distinct)),
    )
