"""Files of texts, alone or as the train and validation files of a data set: what columns hold, and their values."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from app.errors import InvalidError
from app.formats.columns import Column, ColumnKind
from app.formats.detect import TABLE_FORMATS, TEXTS_FORMATS, Format, detect
from app.formats.jsonl import read_jsonl
from app.formats.leaks import count_leaks
from app.formats.profile import Profile
from app.formats.quoting import Quoting, Readings, settle_readings
from app.formats.table_file import Scalar, TableFile, read_lines, read_text_table
from app.formats.text import tsv_quotes
from app.formats.wording import blaming, listed, shown


class DatasetDescription(BaseModel):
    """Two or three files of one task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    n_train: int
    n_validation: int
    n_test: int | None = None
    columns: list[Column]
    quoting: dict[str, Quoting]
    """How the quotes of its .tsv files were read, by split; without files that hold none."""


class TextsDescription(BaseModel):
    """One file of texts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        table = open_table(path, filename, TEXTS_FORMATS, quoting)
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
        InvalidError: the files have no column in common, or the test file lacks one that the others have.

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
    if not names:
        raise InvalidError(
            f"The two files have no column in common: the train file has {listed(train)}, the validation file "
            f"{listed(validation)}. Give the columns the same names in both.",
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
            if detect(path, filename, TABLE_FORMATS, unpack=True) is Format.TSV:
                found[split] = tsv_quotes(path)
    return settle_readings(found, chosen)


def _open_split(split: str, file: tuple[Path, str], readings: Readings) -> TableFile:
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
    accepted: Collection[Format] = TABLE_FORMATS,
    quoting: Quoting | None = None,
) -> dict[str, list[Scalar | None]]:
    """Return whole columns; text files give text, jsonl and parquet what they hold. A missing value is None."""
    table = open_table(path, filename, accepted, quoting)
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InvalidError(f"{filename} has no column {shown(missing[0])}: it has {listed(table.columns)}.")
    places = [table.columns.index(name) for name in columns]
    values: list[list[Scalar | None]] = [[] for _ in columns]
    for row in table.rows():
        for place, column in zip(places, values, strict=True):
            column.append(row[place])
    return dict(zip(columns, values, strict=True))


def _rows_of(table: TableFile, columns: Sequence[Column]) -> Iterator[list[Scalar | None]]:
    """The rows of a file, of these columns in their order."""
    places = [table.columns.index(column.name) for column in columns]
    for row in table.rows():
        yield [row[place] for place in places]


def open_table(
    path: Path, filename: str, accepted: Collection[Format] = TABLE_FORMATS, quoting: Quoting | None = None
) -> TableFile:
    """Open a table in any format that is accepted."""
    file_format = detect(path, filename, accepted, unpack=True)
    if file_format is Format.LINES:
        return read_lines(path)
    if file_format is Format.JSONL:
        return read_jsonl(path)
    if file_format is Format.PARQUET:
        # Here, not above: the web process names functions of this module, but only its sandbox needs pyarrow.
        from app.formats.parquet import read_parquet  # noqa: PLC0415

        return read_parquet(path)
    return read_text_table(path, file_format, quoting)


def _profile(table: TableFile) -> tuple[int, dict[str, Profile]]:
    """Read a whole file; return its number of rows and what each column holds."""
    profiles = [Profile() for _ in table.columns]
    for row in table.rows():
        for profile, value in zip(profiles, row, strict=True):
            profile.add(value)
    n = profiles[0].n
    if n == 0:
        raise InvalidError("the file names columns but has no rows: expected at least one.")
    return n, dict(zip(table.columns, profiles, strict=True))


def _column(name: str, train: Profile, validation: Profile | None, test: Profile | None = None) -> Column:
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
        unseen=[] if values is None or validation is None else validation.lacks(values),
        not_number=not_number,
        n_missing_train=train.n_missing,
        n_missing_validation=0 if validation is None else validation.n_missing,
        n_missing_test=0 if test is None else test.n_missing,
        test_unlabelled=test is not None and test.unlabelled_beside(train),
    )
