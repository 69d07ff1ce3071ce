"""Findings on a terminal."""

from collections.abc import Iterator

from isotropy.catalog import MEASURES
from isotropy.findings import Finding

LISTED = 10
"""Rows that are named."""


def finding_lines(finding: Finding) -> Iterator[str]:
    """Yield what was found, the rows, what a measure would be without them, and the advice."""
    yield f"{finding.severity.value}: {finding.title}: {_rows(finding)}."
    effect = finding.effect
    name = MEASURES[effect.measure].name
    yield f"  Without: {name} is {_told(effect.after.value, effect.after.se)}, now {_told(effect.before.value, None)}."
    yield f"  {finding.evidence} {finding.advice}"


def _rows(finding: Finding) -> str:
    names = finding.names or [""] * len(finding.rows)
    each = [f"{row} ({name})" if name else f"{row}" for row, name in zip(finding.rows, names, strict=True)][:LISTED]
    more = finding.row_count - len(each)
    return f"{'row' if finding.row_count == 1 else 'rows'} {', '.join(each)}" + (f" and {more:,} more" if more else "")


def _told(value: float | None, se: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.3g}" + ("" if se is None else f" ± {se:.2g}")
