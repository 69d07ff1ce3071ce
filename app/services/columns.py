"""Which columns of a data set a sweep may read and predict."""

from collections.abc import Sequence

from isoscope.core.errors import InvalidError
from isoscope.core.task import TaskKind
from isoscope.files.columns import MAX_LABELS, NUMBER, Column, ColumnKind
from isoscope.files.span import EXAMPLE
from isoscope.files.wording import listed, shown


def check_columns(
    columns: Sequence[Column], task: TaskKind, text_columns: Sequence[str], label_column: str
) -> list[str]:
    """Return the names of the classes in order, none where the task is not classification.

    Raises:
        InvalidError: with the field ``text_columns`` or ``label_column``, if the task cannot be learned from these.

    """
    _check_text_columns(columns, task, text_columns)
    if label_column in text_columns:
        raise InvalidError(
            f"The label column {shown(label_column)} is also a text column: the model would read the answer. "
            "Choose another.",
            "label_column",
        )
    label = _find(columns, label_column, "label_column")
    _require_complete(label, "label_column")
    match task:
        case TaskKind.CLASSIFICATION:
            return _classes(label)
        case TaskKind.REGRESSION:
            _check_numbers(label)
        case TaskKind.SPAN:
            _check_spans(label)
    return []


def _check_text_columns(columns: Sequence[Column], task: TaskKind, names: Sequence[str]) -> None:
    for name in names:
        column = _find(columns, name, "text_columns")
        _require_complete(column, "text_columns")
        if column.kind is ColumnKind.SPAN:
            raise InvalidError(
                f"The column {shown(name)} holds answers and where they begin, not texts: choose it as the label of a "
                "span task.",
                "text_columns",
            )
    if len(set(names)) < len(names):
        raise InvalidError("The same text column was chosen twice: choose two different ones.", "text_columns")
    if task is TaskKind.SPAN and len(names) != 2:
        raise InvalidError(
            f"Expected two text columns for a span task, the question and the context that holds its answer; got "
            f"{listed(names)}. Choose both, in this order.",
            "text_columns",
        )


def _classes(column: Column) -> list[str]:
    if column.kind is ColumnKind.SPAN:
        raise InvalidError(
            f"The column {shown(column.name)} holds answers and where they begin, not classes: choose the span task, "
            "or a column of classes.",
            "label_column",
        )
    if column.values is None:
        counted = "more than 1,000" if column.n_distinct > 1000 else f"{column.n_distinct:,}"
        raise InvalidError(
            f"The column {shown(column.name)} has {counted} different values, labels at most {MAX_LABELS}: "
            "choose the column that holds the classes.",
            "label_column",
        )
    if fraction := next((value for value in column.values if is_fraction(value)), None):
        raise InvalidError(
            f"The column {shown(column.name)} holds fractions such as {fraction}, so it is a score and not a class: "
            "choose a column of classes, or regression.",
            "label_column",
        )
    _require_two(column)
    if column.unseen:
        raise InvalidError(
            f"The column {shown(column.name)} of the validation file holds {listed(column.unseen)}, which the train "
            "file never does, so no model can learn it: use the same labels in both files.",
            "label_column",
        )
    if column.n_test_unseen:
        raise InvalidError(
            f"The column {shown(column.name)} of the test file holds labels that the train file never does, in "
            f"{column.n_test_unseen:,} rows, so no model can predict them: use the same labels in all files.",
            "label_column",
        )
    return column.values


def _check_numbers(column: Column) -> None:
    if column.not_number is not None or column.kind in {ColumnKind.TEXT, ColumnKind.SPAN}:
        held = "text" if column.not_number is None else shown(column.not_number)
        raise InvalidError(
            f"The column {shown(column.name)} holds {held}, expected a finite number in every row for regression: "
            "choose a column of numbers, or classification.",
            "label_column",
        )
    _require_two(column)


def _check_spans(column: Column) -> None:
    if column.kind is not ColumnKind.SPAN:
        held = f" such as {shown(column.examples[0])}" if column.examples else ""
        raise InvalidError(
            f"The column {shown(column.name)} holds {column.kind}s{held}, expected answers and where they begin in the "
            f"context in every row of both files, as in {EXAMPLE}: choose such a column, or another task.",
            "label_column",
        )


def _require_two(column: Column) -> None:
    if column.n_distinct < 2:
        raise InvalidError(
            f"The column {shown(column.name)} holds {listed(column.examples)} in every row of the train file: "
            "choose a column with at least two different labels.",
            "label_column",
        )


def _find(columns: Sequence[Column], name: str, field: str) -> Column:
    for column in columns:
        if column.name == name:
            return column
    raise InvalidError(
        f"There is no column {shown(name)} in both files: choose one of {listed([each.name for each in columns])}.",
        field,
    )


def _require_complete(column: Column, field: str) -> None:
    """Refuse a column with empty cells: a row without its text or label cannot be learned from."""
    for count, which in (
        (column.n_missing_train, "train"),
        (column.n_missing_validation, "validation"),
        (column.n_missing_test, "test"),
    ):
        if count:
            rows = "1 row" if count == 1 else f"{count:,} rows"
            raise InvalidError(
                f"The column {shown(column.name)} is empty in {rows} of the {which} file: "
                "fill the cells, or leave those rows out of the file.",
                field,
            )


def is_fraction(label: str) -> bool:
    """Whether a label is a number that is not whole."""
    return NUMBER.fullmatch(label) is not None and not float(label).is_integer()
