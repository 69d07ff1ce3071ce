"""What columns are called on pages: of figures' tables, whose files keep the plain names, and of tables of runs."""

import re

WHOLE = {"lambda": "λ", "lam": "λ", "zeta": "ζ"}
PARTS = (
    (re.compile(r"_?ci95_half_width$"), " ± (95 % CI)"),
    (re.compile(r"\b(raw|centred)_(\d)"), r"\1, k = \2"),
    (re.compile(r"isoscore_star"), "IsoScore★"),
    (re.compile(r"_"), " "),
)
FIELDS = {"task": "Data set", "lam": "λ", "zeta": "ζ", "evaluation_zeta": "ζ of the evaluation"}


def head(field: str) -> str:
    """What a field that runs differ in is called at the head of a column."""
    return FIELDS.get(field) or field.replace("_", " ").capitalize()


def heading(column: str) -> str:
    """A column's name as a reader wants it: λ, IsoScore★ mean, raw, k = 1 ± (95 % CI)."""
    if column in WHOLE:
        return WHOLE[column]
    for pattern, words in PARTS:
        column = pattern.sub(words, column)
    return column.strip()
