"""The record of one finding."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from isotropy.score import Score

MAX_ROWS = 100
"""Rows that a finding lists; it counts all."""


class Severity(StrEnum):
    """How much a finding matters: worth knowing, changes the scores, or nothing can be said before it is mended."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0 for the most severe."""
        return (Severity.ERROR, Severity.WARNING, Severity.NOTE).index(self)


class Effect(NamedTuple):
    """What a measure is, and what it would be if the finding were mended."""

    measure: str
    before: Score
    after: Score

    def document(self) -> dict[str, Any]:
        """Return the effect as JSON takes it."""
        return {
            "measure": self.measure,
            "before": self.before.value,
            "before_se": self.before.se,
            "after": self.after.value,
            "after_se": self.after.se,
        }


class Finding(NamedTuple):
    """Something wrong with a cloud, the evidence for it, and what to do."""

    slug: str
    severity: Severity
    title: str
    evidence: str
    rows: list[int]
    """Places in the file, from 0, in order; the first ``MAX_ROWS``."""
    row_count: int
    names: list[str] | None
    """Of these rows, if rows have names."""
    effect: Effect
    advice: str

    def document(self) -> dict[str, Any]:
        """Return the finding as JSON takes it."""
        return {**self._asdict(), "severity": self.severity.value, "effect": self.effect.document()}
