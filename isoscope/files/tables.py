"""Files of texts, alone or as the train and validation files of a data set: what columns hold, and their values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import blaming, listed, shown
from isoscope.files.columns import Column, ColumnKind, ColumnStats, count_leaks, stats_of
from isoscope.files.detect import detect
from isoscope.files.strict import Frozen
from isoscope.files.table import Scalar, Table
from isoscope.files.text import Quoting, Readings, settle_readings, tsv_quotes
from isoscope.files.upload_formats import Role

NO_ROWS = "the file names columns but has no rows: expected at least one."


class DatasetDescription(Frozen):
    """Two or three files of one task."""

    n_train: int
    n_validation: int
    n_test: int | None = None
    columns: list[Column]
    quoting: dict[str, Quoting]
    """How the quotes of its .tsv files were read, by split; without files that hold none."""


class TextsDescription(Frozen):
    """One file of texts."""

    n: int
    columns: list[Column]
    """What they say of a train file is of this one; nothing is missing from a validation file that there is not."""
    quoting: Quoting | None
    """How the quotes of a .tsv file were read; None where there are none."""


def describe_texts(path: Path, filename: str, quoting: Quoting | None = None) -> TextsDescription:
    """Read a file of texts, a text a line or a table, and describe its columns. Run it in the sandbox.

    Quotes of a .tsv file are read as chosen, else as they are meant.

    Raises:
        IsoscopeError: with the field ``file``, if it cannot be read or has no rows.

    """
    with blaming(filename, "file"):
        table = open_table(path, filename, Role.TEXTS, quoting)
        n, profiles = _profile(table)
    columns = [_column(name, profile, None) for name, profile in profiles.items()]
    return TextsDescription(n=n, columns=columns, quoting=table.quoting)


def describe_pair(
    train_path: Path,
    train_filename: str,
    validation_path: Path,
    validation_filename: str,
    test_path: Path | None = None,
    test_filename: str = "",
    quoting: Quoting | Readings | None = None,
) -> DatasetDescription:
    """Read the files and describe the columns that train and validation have. Run it in the sandbox.

    Quotes of .tsv files are read as chosen, for all or by split; else as they are meant.

    Raises:
        IsoscopeError: with the field ``train``, ``validation`` or ``test``, if that file cannot be read or has no rows.
        InvalidError: the files share no column, or none of texts, or the test file lacks one that the others have.

    """
    files = {"train": (train_path, train_filename), "validation": (validation_path, validation_filename)}
    files |= {} if test_path is None else {"test": (test_path, test_filename)}
    readings = dict(quoting) if isinstance(quoting, Mapping) else find_readings(files, quoting)
    tables = {split: _open_split(split, file, readings) for split, file in files.items()}
    with blaming(train_filename, "train"):
        n_train, train = _profile(tables["train"])
    with blaming(validation_filename, "validation"):
        n_validation, validation = _profile(tables["validation"])
    names = [name for name in train if name in validation]
    lost_texts = any(one.holds_texts for one in train.values()) and not any(train[name].holds_texts for name in names)
    if not names or lost_texts:
        raise InvalidError(
            f"The two files have no column {'of texts ' if names else ''}in common: the train file has "
            f"{listed(train)}, the validation file {listed(validation)}. Give the columns the same names in both.",
            field="validation",
        )
    n_test, test = None, None
    if "test" in tables:
        with blaming(test_filename, "test"):
            n_test, test = _profile(tables["test"])
            _require_all(names, test)
    shared = [_column(name, train[name], validation[name], None if test is None else test[name]) for name in names]
    columns = count_leaks(
        shared,
        lambda: _rows_of(tables["train"], shared),
        lambda: _rows_of(tables["validation"], shared),
        (lambda: _rows_of(tables["test"], shared)) if "test" in tables else None,
    )
    return DatasetDescription(
        n_train=n_train, n_validation=n_validation, n_test=n_test, columns=columns, quoting=readings
    )


def find_readings(files: Mapping[str, tuple[Path, str]], chosen: Quoting | None = None) -> dict[str, Quoting]:
    """Return how the quotes of the .tsv files of a data set are read, by split: as chosen, else as they are meant."""
    found = {}
    for split, (path, filename) in files.items():
        with blaming(filename, split):
            if detect(path, filename, Role.ROWS).name == "tsv":
                found[split] = tsv_quotes(path)
    return settle_readings(found, chosen)


def _open_split(split: str, file: tuple[Path, str], readings: Readings) -> Table:
    with blaming(file[1], split):
        return open_table(*file, quoting=readings.get(split))


def _require_all(names: Collection[str], test: Collection[str]) -> None:
    if lacking := [name for name in names if name not in test]:
        raise InvalidError(
            f"No column named {shown(lacking[0])}, which the train and validation files have. Columns are: "
            f"{listed(test)}. A test file needs all columns of the others, labels too."
        )


def read_columns(
    path: Path,
    filename: str,
    columns: list[str],
    role: Role = Role.ROWS,
    quoting: Quoting | None = None,
) -> dict[str, list[Scalar | None]]:
    """Return whole columns; text files give text, jsonl and parquet what they hold. A missing value is None."""
    table = open_table(path, filename, role, quoting)
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InvalidError(f"{filename} has no column {shown(missing[0])}: it has {listed(table.columns)}.")
    places = [table.columns.index(name) for name in columns]
    values: list[list[Scalar | None]] = [[] for _ in columns]
    for row in table.rows():
        for place, column in zip(places, values, strict=True):
            column.append(row[place])
    return dict(zip(columns, values, strict=True))


def _rows_of(table: Table, columns: Sequence[Column]) -> Iterator[list[Scalar | None]]:
    """The rows of a file, of these columns in their order."""
    places = [table.columns.index(column.name) for column in columns]
    for row in table.rows():
        yield [row[place] for place in places]


def open_table(path: Path, filename: str, role: Role = Role.ROWS, quoting: Quoting | None = None) -> Table:
    """Open a table in any format that may be uploaded as this."""
    return detect(path, filename, role).open_table(path, quoting)


def _profile(table: Table) -> tuple[int, dict[str, ColumnStats]]:
    n, columns = stats_of(table)
    if n == 0:
        raise InvalidError(NO_ROWS)
    return n, columns


def _column(name: str, train: ColumnStats, validation: ColumnStats | None, test: ColumnStats | None = None) -> Column:
    values = train.values
    kind = train.kind
    if kind is ColumnKind.SPAN and validation is not None and validation.kind is not ColumnKind.SPAN:
        kind = ColumnKind.TEXT
    not_number = train.not_number
    if not_number is None and validation is not None:
        not_number = validation.not_number
    if not_number is None and test is not None:
        not_number = test.not_number
    return Column(
        name=name,
        kind=kind,
        n_distinct=train.n_distinct,
        examples=train.examples,
        values=values,
        train_counts=train.counts_of(values),
        validation_counts=None if validation is None else validation.counts_of(values),
        lengths=train.lengths,
        unseen=[] if values is None or validation is None else validation.lacks(values),
        not_number=not_number,
        n_missing_train=train.n_missing,
        n_missing_validation=0 if validation is None else validation.n_missing,
        n_missing_test=0 if test is None else test.n_missing,
        test_unlabelled=test is not None and test.unlabelled_beside(train),
    )
