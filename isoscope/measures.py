"""Measures on a terminal: by group, each in a line with its standard error and the rows behind it."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.numerals import starred
from isotropy.catalog import GROUPS, MEASURES

NAMES = {
    slug: starred(measure.name) + (f" ({measure.value})" if measure.value else "") for slug, measure in MEASURES.items()
}
WIDTH = max(map(len, NAMES.values()))
EXPLAINED = (
    "± is one standard error; of a biased measure only the spread between samples of this size. IsoScore and "
    "participation ratio describe these rows: read their bias-corrected forms for the population. n stands in brackets "
    "where rows were sampled or left out"
)

Value = float | list[float | None] | None


def by_group(cells: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table, of what was measured by the measures' slugs."""
    for group, heading in GROUPS.items():
        of_group = {slug: cell for slug, cell in cells.items() if MEASURES[slug].group == group}
        if of_group:
            yield f"\n{heading}"
        for slug, cell in of_group.items():
            yield f"  {NAMES[slug]:{WIDTH}}  {cell}"


def independent_rows(by: str, groups: int) -> str | None:
    """Return the line that tells which rows count as one in errors and in the bias correction; None where none do."""
    if by == "duplicates":
        return f"exact duplicates count as one row in errors and bias corrections: {groups:,} are distinct"
    return (
        f"rows of one group count as one in errors and bias corrections: {groups:,} groups" if by == "groups" else None
    )


def cell(
    value: Value, se: float | None, reason: str | None, n: int, of: int | None, detail: Mapping[str, Any] | None = None
) -> str:
    """A value with its error, the ``parts`` of its detail, and the ``n`` rows behind it if not all ``of`` them."""
    if value is None:
        return f"undefined: {reason}"
    values = value if isinstance(value, list) else [value]
    text = ", ".join("-" if one is None else f"{one:.6g}" for one in values)
    error = "" if se is None else f" ± {se:.2g}"
    parts = {name.replace("_", " "): one for name, one in (detail or {}).get("parts", {}).items() if one is not None}
    beside = "".join(f", {name} {one:.4g}" for name, one in parts.items())
    return f"{text}{error}{beside}" + ("" if n == of else f"  (n = {n:,})")
