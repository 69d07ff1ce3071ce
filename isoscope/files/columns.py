"""The columns of a data set, described once so that forms and checks need not read the files again; their labels."""

import re
from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

MAX_LABELS = 200

WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


class ColumnKind(StrEnum):
    """What a column looks like, so that a form can propose it for the right thing."""

    TEXT = "text"
    NUMBER = "number"
    LABEL = "label"
    SPAN = "span"
    """Answers and where they begin in a text: see ``isoscope.files.span``."""


class Column(BaseModel):
    """A column that all files have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: ColumnKind
    n_distinct: int
    """In the train file; 1,001 means more than 1,000."""
    examples: list[str]
    """Three values of the train file, cut short."""
    values: list[str] | None
    """The distinct values of the train file as labels, in order; null when there are more than 200."""
    unseen: list[str]
    """Up to three values of the validation file that the train file lacks; looked for only if ``values``."""
    not_number: str | None = None
    """A value, cut short, of either file that is no finite number; null where all are."""
    n_missing_train: int
    n_missing_validation: int
    n_unseen: int = 0
    """Rows of the validation file with a value that the train file lacks; counted only if ``values``."""
    n_also_train: int = 0
    """Rows of the validation file with a text that the train file has too; counted only of texts."""
    n_missing_test: int = 0
    n_test_unseen: int = 0
    """Rows of the test file with a label that the train file lacks; counted only of labels."""
    n_test_also_train: int = 0
    """Rows of the test file with a text that the train file has too; counted only of texts."""
    n_test_also_validation: int = 0
    test_unlabelled: bool = False
    """Whether the test file has no value here that could be a label: all are missing, or -1 where train never is."""


def label_text(value: object) -> str:
    """Return the name of a label: ``1``, ``1.0``, ``"1"`` and ``"1.0 "`` are one label in all formats."""
    text = str(value).strip()
    whole = WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Return labels in an order that does not depend on the file: numbers by size, then texts."""
    return sorted(labels, key=lambda label: (0, float(label), label) if NUMBER.fullmatch(label) else (1, 0.0, label))
