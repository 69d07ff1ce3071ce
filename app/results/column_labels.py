"""What columns are called on pages: of figures' tables, whose files keep the plain names, and of tables of runs."""

import re

from app.db.config import OPTIONS
from app.db.options.option import lowered

WHOLE = {"lambda": "λ", "lam": "λ", "zeta": "ζ"}
PARTS = (
    (re.compile(r"_?ci95_half_width$"), " ± (95% CI)"),
    (re.compile(r"\b(raw|centred)_(\d)"), r"\1, k = \2"),
    (re.compile(r"isoscore_star"), "IsoScore★"),
    (re.compile(r"_"), " "),
)
DATA_SET = {"task": "Data set"}
"""A run's task is called as its data set is, in columns and in searches."""


def head(field: str) -> str:
    """Return what a field that runs differ in is called at the head of a column."""
    label = DATA_SET.get(field) or (OPTIONS[field].label if field in OPTIONS else "")
    return label or field.replace("_", " ").capitalize()


def inside(field: str) -> str:
    """Return the same inside a sentence or beside a value."""
    return lowered(head(field))


def heading(column: str) -> str:
    """A column's name as a reader wants it: λ, IsoScore★ mean, raw, k = 1 ± (95% CI)."""
    if column in WHOLE:
        return WHOLE[column]
    for pattern, words in PARTS:
        column = pattern.sub(words, column)
    return column.strip()
