"""Divide a file of rows into the splits of a data set: by a column that names the split, or by random fractions."""

import gzip
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TextIO

from pydantic import Field, model_validator

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, plural, prefixed_errors, quote
from isoscope.files.columns import (
    NO_ROWS,
    ColumnKind,
    detect_quoting_by_split,
    label_text,
    open_table,
    stats_of,
    text_digest,
)
from isoscope.files.strict import Frozen
from isoscope.files.table import Scalar, Table
from isoscope.files.text import Quoting

SPLITS = ("train", "validation", "test")
SUFFIX = ".jsonl.gz"
# Minimum fraction of the requested rows: below it, groups of equal texts are too large to draw from.
MIN_DRAWN_FRACTION = 0.5

SplitValues = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=20)]


class ColumnDivision(Frozen):
    """A division by a column that names the split of each row."""

    kind: Literal["column"] = "column"
    column: Annotated[str, Field(min_length=1, max_length=200)]
    train: SplitValues = Field(["train"])
    validation: SplitValues = Field(["validation"])
    # None: ``test`` where there are such rows, else no test split.
    test: SplitValues | None = None

    @model_validator(mode="after")
    def _require_one_split_a_value(self) -> Self:
        names = [label_text(value) for split in SPLITS for value in self.values_of(split)]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"expected every value in one split, got {quote(repeated)} in two")
        if not (self.train and self.validation):
            raise ValueError("expected at least one value for train and one for validation")
        return self

    def values_of(self, split: str) -> list[str]:
        values: list[str] | None = getattr(self, split)
        return ["test"] if values is None else values


Fraction = Annotated[float, Field(gt=0, le=0.5)]


class FractionDivision(Frozen):
    """A division that draws fractions of the train rows for test and validation.

    Rows that share a text stay together, and every label keeps some train rows.
    """

    kind: Literal["fraction"] = "fraction"
    fraction: Fraction | None = None
    validation_fraction: Fraction | None = None
    seed: int = Field(0, ge=0, le=2**31 - 1)

    @model_validator(mode="after")
    def _require_a_fraction(self) -> Self:
        if not self.fractions:
            raise ValueError("expected a fraction of test or of validation rows")
        return self

    @property
    def fractions(self) -> dict[str, float]:
        """Return the fraction of each split; test is first, so that validation rows do not change its draw."""
        fractions = {"test": self.fraction, "validation": self.validation_fraction}
        return {split: fraction for split, fraction in fractions.items() if fraction is not None}


Division = ColumnDivision | FractionDivision


class DividedFile(NamedTuple):
    """The number of rows by split, and how quotes in .tsv files were read, by split."""

    counts: dict[str, int]
    quoting: dict[str, Quoting]


def divide_file(
    division: Division,
    path: Path,
    filename: str,
    validation: tuple[Path, str] | None,
    folder: Path,
    quoting: Quoting | None = None,
) -> DividedFile:
    """Write the rows of each split as ``<split>.jsonl.gz`` into ``folder``. Run it in the sandbox.

    Texts of a given validation file are never drawn. Raises InvalidError with the form field at fault.
    """
    files = {"train": (path, filename)} | ({"validation": validation} if validation else {})
    quoting_by_split = detect_quoting_by_split(files, quoting)
    with prefixed_errors(filename, "train"):
        table = open_table(path, filename, quoting=quoting_by_split.get("train"))
        if next(iter(table.rows()), None) is None:
            raise InvalidError(NO_ROWS)
        if isinstance(division, ColumnDivision):
            return DividedFile(_divide_by_column(division, table, folder), quoting_by_split)
        groups = TextGroups(table)
    validation_digests: set[bytes] = set()
    if validation:
        with prefixed_errors(validation[1], "validation"):
            table = open_table(*validation, quoting=quoting_by_split.get("validation"))
            validation_digests = {
                digest for row in table.rows() for digest in _digests(table.columns, row, groups.text_columns)
            }
    with prefixed_errors(filename, "train"):
        return DividedFile(_draw_fractions(division, groups, validation_digests, folder), quoting_by_split)


def _divide_by_column(division: ColumnDivision, table: Table, folder: Path) -> dict[str, int]:
    if division.column not in table.columns:
        raise InvalidError(
            f"No column named {quote(division.column)}. Columns are: {listed(table.columns)}.", "split_column"
        )
    index = table.columns.index(division.column)
    split_by_value = {label_text(value): split for split in SPLITS for value in division.values_of(split)}
    splits = [split for split in SPLITS if division.values_of(split)]
    values: dict[str, None] = {}
    with SplitWriters(folder, splits) as writers:
        for number, row in enumerate(table.rows(), start=1):
            value = row[index]
            name = "" if value is None else label_text(value)
            if name not in split_by_value:
                complaint = "has no value" if value is None else f"holds {quote(name)}"
                mapping = "; ".join(f"{split}: {listed(division.values_of(split))}" for split in splits)
                raise InvalidError(
                    f"Row {number:,} {complaint} in column {quote(division.column)}, which no split takes. Values are "
                    f"mapped as {mapping}. Add the value to a split, or remove the row.",
                    "split_column",
                )
            values[name] = None
            record = {column: row[i] for i, column in enumerate(table.columns) if i != index}
            writers.write(split_by_value[name], record)
        counts = writers.counts
    if division.test is None and not counts["test"]:
        del counts["test"]
    if empty := next((split for split, n in counts.items() if not n), None):
        expected = listed(division.values_of(empty))
        raise InvalidError(
            f"No row is in the {empty} split: column {quote(division.column)} never holds {expected}. "
            f"It holds: {listed(values)}.",
            f"split_{empty}",
        )
    return counts


def _draw_fractions(
    division: FractionDivision, groups: "TextGroups", excluded_digests: Collection[bytes], folder: Path
) -> dict[str, int]:
    ordered_groups = sorted(
        groups.sizes(excluded_digests).items(), key=lambda group: _draw_key(division.seed, group[0])
    )
    targets = {split: max(1, round(fraction * groups.n)) for split, fraction in division.fractions.items()}
    split_by_group: dict[bytes, str] = {}
    for split, target in targets.items():
        remaining = target
        for root, size in ordered_groups:
            if root not in split_by_group and size <= remaining:
                split_by_group[root] = split
                remaining -= size
    for root in _groups_needed_in_train(division.seed, groups, split_by_group):
        del split_by_group[root]
    sizes = groups.sizes()
    counts = Counter({"train": groups.n})
    for root, split in split_by_group.items():
        counts.update({split: sizes[root], "train": -sizes[root]})
    for split, target in targets.items():
        if counts[split] < MIN_DRAWN_FRACTION * target or not counts["train"]:
            raise InvalidError(
                f"No {split} split of {plural(target, 'row')} can be drawn so that no text is on both sides and rows "
                f"of every label are left to train on: the largest group of rows that share texts has "
                f"{max(sizes.values()):,} of {groups.n:,} rows. Upload a {split} file instead, or choose another "
                "fraction.",
                f"{split}_fraction",
            )
    with SplitWriters(
        folder, [split for split in SPLITS if split == "train" or split in division.fractions]
    ) as writers:
        for root, row in groups.rows():
            writers.write(split_by_group.get(root, "train"), dict(zip(groups.table.columns, row, strict=True)))
        return writers.counts


def _groups_needed_in_train(seed: int, groups: "TextGroups", drawn_groups: Collection[bytes]) -> set[bytes]:
    """Return drawn groups that must stay in train because no other group there has one of their labels."""
    train_labels: set[tuple[str, str]] = set()
    group_by_label: dict[tuple[str, str], bytes] = {}
    for root, row in groups.rows():
        cells = ((name, row[index]) for name, index in groups.label_indices.items())
        labels = [(name, label_text(value)) for name, value in cells if value is not None]
        if root not in drawn_groups:
            train_labels.update(labels)
        else:
            group_by_label |= {
                name: min(root, group_by_label.get(name, root), key=partial(_draw_key, seed)) for name in labels
            }
    return {root for label, root in group_by_label.items() if label not in train_labels}


def _digests(columns: Sequence[str], row: Sequence[Scalar | None], text_columns: Sequence[str]) -> list[bytes]:
    """Return digests of a row's texts, or of the whole row without text columns."""
    cells = dict(zip(columns, row, strict=True))
    digests = [text_digest(value) for name in text_columns if (value := cells.get(name)) is not None]
    return digests or [text_digest(json.dumps([cells[name] for name in sorted(cells)]))]


def _draw_key(seed: int, root: bytes) -> bytes:
    """Return a group's sort key, which depends only on the seed and its texts."""
    return blake2b(root, digest_size=16, key=str(seed).encode()).digest()


class SplitWriters(ExitStack):
    """Writers of a file per split; the same rows give the same bytes."""

    def __init__(self, folder: Path, splits: Sequence[str]) -> None:
        super().__init__()
        self._files: dict[str, TextIO] = {}
        for split in splits:
            raw = self.enter_context((folder / f"{split}{SUFFIX}").open("wb"))
            packed = self.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0))
            self._files[split] = self.enter_context(TextIOWrapper(packed, encoding="utf-8", newline="\n"))
        self.counts = dict.fromkeys(splits, 0)

    def write(self, split: str, record: Mapping[str, Any]) -> None:
        self._files[split].write(f"{json.dumps(record, ensure_ascii=False)}\n")
        self.counts[split] += 1


class TextGroups:
    """Groups of rows that share texts, directly or through other rows. The smallest digest of a group is its root."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.n, columns = stats_of(table)
        self.text_columns = [name for name, column in columns.items() if column.holds_texts]
        labels = [name for name, stats in columns.items() if stats.kind is ColumnKind.LABEL and not stats.holds_texts]
        self.label_indices = {name: table.columns.index(name) for name in labels}
        self._parent: dict[bytes, bytes] = {}
        self._rows: Counter[bytes] = Counter()
        for row in table.rows():
            digests = _digests(table.columns, row, self.text_columns)
            roots = {self._find_root(digest) for digest in digests}
            smallest = min(roots)
            for root in roots - {smallest}:
                self._parent[root] = smallest
            self._rows[digests[0]] += 1

    def rows(self) -> Iterator[tuple[bytes, Sequence[Scalar | None]]]:
        for row in self.table.rows():
            yield self._find_root(_digests(self.table.columns, row, self.text_columns)[0]), row

    def sizes(self, excluded_digests: Collection[bytes] = ()) -> dict[bytes, int]:
        sizes: Counter[bytes] = Counter()
        for digest, n_rows in self._rows.items():
            sizes[self._find_root(digest)] += n_rows
        excluded_roots = {self._find_root(digest) for digest in excluded_digests if digest in self._parent}
        return {root: size for root, size in sizes.items() if root not in excluded_roots}

    def _find_root(self, digest: bytes) -> bytes:
        root = self._parent.setdefault(digest, digest)
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[digest] != root:
            self._parent[digest], digest = root, self._parent[digest]
        return root
