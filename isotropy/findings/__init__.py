"""What is wrong with a cloud: each finding with its rows, and what mending it would change."""

from __future__ import annotations

from isotropy.cloud import Cloud
from isotropy.findings.finding import Effect, Finding, Severity
from isotropy.findings.outlier_rows import outlier_rows
from isotropy.projection import NamesOf

__all__ = ["Effect", "Finding", "Severity", "findings_of"]

CHECKS = (outlier_rows,)


def findings_of(cloud: Cloud, names_of: NamesOf = lambda _: None) -> list[Finding]:
    """Return the findings of a cloud, warnings before notes; none of a healthy one.

    Args:
        cloud: the points.
        names_of: gives the names of rows by their places among all, int64, or None.

    """
    found = [one for check in CHECKS if (one := check(cloud, names_of)) is not None]
    return sorted(found, key=lambda one: one.severity.rank)
