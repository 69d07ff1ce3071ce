"""Labels: one name for each whatever a file writes it as, and what makes a column fit to be the label."""

import re
from collections.abc import Iterable, Sequence

from app.errors import InvalidError
from app.formats.columns import Column
from app.formats.wording import listed, shown

MAX_LABELS = 200

WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def label_text(value: object) -> str:
    """Return the name of a label: ``1``, ``1.0``, ``"1"`` and ``"1.0 "`` are one label in all formats."""
    text = str(value).strip()
    whole = WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Return labels in an order that does not depend on the file: numbers by size, then texts."""
    return sorted(labels, key=lambda label: (0, float(label), label) if NUMBER.fullmatch(label) else (1, 0.0, label))


def label_values(columns: Sequence[Column], name: str) -> list[str]:
    """Return the labels of a column in the order of ``sort_labels``.

    Raises:
        InvalidError: with the field ``label_column``, if the column cannot be the label of a classification.

    """
    column = _find(columns, name, "label_column")
    _require_complete(column, "label_column")
    if column.values is None:
        counted = "more than 1,000" if column.n_distinct > 1000 else f"{column.n_distinct:,}"
        raise InvalidError(
            f"The column {shown(name)} has {counted} different values, labels at most {MAX_LABELS}: "
            "choose the column that holds the classes.",
            field="label_column",
        )
    if fraction := next((value for value in column.values if _is_fraction(value)), None):
        raise InvalidError(
            f"The column {shown(name)} holds fractions such as {fraction}, so it is a score and not a class: "
            "choose a column of classes.",
            field="label_column",
        )
    if len(column.values) < 2:
        raise InvalidError(
            f"The column {shown(name)} holds {column.values[0]!r} in every row of the train file: "
            "choose a column with at least two different labels.",
            field="label_column",
        )
    if column.unseen:
        raise InvalidError(
            f"The column {shown(name)} of the validation file holds {listed(column.unseen)}, which the train file "
            "never does, so no model can learn it: use the same labels in both files.",
            field="label_column",
        )
    return column.values


def check_text_columns(columns: Sequence[Column], names: Sequence[str]) -> None:
    """Raise InvalidError, with the field ``text_columns``, if one of these columns cannot be trained on."""
    for name in names:
        _require_complete(_find(columns, name, "text_columns"), "text_columns")
    if len(set(names)) < len(names):
        raise InvalidError("The same text column was chosen twice: choose two different ones.", "text_columns")


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
    for count, which in ((column.n_missing_train, "train"), (column.n_missing_validation, "validation")):
        if count:
            rows = "1 row" if count == 1 else f"{count:,} rows"
            raise InvalidError(
                f"The column {shown(column.name)} is empty in {rows} of the {which} file: "
                "fill the cells, or leave those rows out of the file.",
                field,
            )


def _is_fraction(label: str) -> bool:
    return NUMBER.fullmatch(label) is not None and not float(label).is_integer()
