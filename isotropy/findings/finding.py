"""The record of one finding, and how its effect is judged."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog.findings import NEIGHBORS_KEPT
from isotropy.cloud import Cloud
from isotropy.score import Score

MAX_LISTED = 100  # Rows, and dimensions, that a finding lists; it counts all
MATERIAL = 0.05  # Change of a score, or share of the top-10 neighbors that change, that is worth a warning
LEAST_DIMENSIONS = 0.5  # Standard error of the participation ratio below which a score of about 0 is still determined
NO_INDICES: NDArray[np.int64] = np.empty(0, np.int64)
# Scores whose change counts; the first that changes is told. One huge row moves the second alone.
SCORES = ("isoscore_unbiased", "isoscore")


class Severity(StrEnum):
    """How much a finding matters: worth knowing, changes the scores, or blocks any conclusion."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return (Severity.ERROR, Severity.WARNING, Severity.NOTE).index(self)


class Effect(NamedTuple):
    """A measure before and after the finding is mended."""

    measure: str
    before: Score
    after: Score

    @property
    def change(self) -> float:
        """Absolute change; 1 if the measure is defined only after mending."""
        if self.after.value is None:
            return 0.0
        return 1.0 if self.before.value is None else abs(self.after.value - self.before.value)

    def is_material(self, d: int) -> bool:
        """Return whether the change exceeds ``MATERIAL`` and its error, or makes the measure determined."""
        if self.after.value is None:
            return False
        changed = self.change > max(MATERIAL, self.after.se or 0.0)
        return changed or (_is_undetermined(self.before, d) and not _is_undetermined(self.after, d))

    def document(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "before": self.before.value,
            "before_se": self.before.se,
            "after": self.after.value,
            "after_se": self.after.se,
        }


class Finding(NamedTuple):
    """A problem of a cloud, with evidence and advice."""

    slug: str
    severity: Severity
    title: str
    evidence: str
    rows: list[int]  # Places in the file, from 0, in order; the first `MAX_LISTED`
    row_count: int
    names: list[str] | None  # Names of these rows, if rows have names
    dimensions: list[int]  # From 0, in order; the first `MAX_LISTED`
    dimension_count: int
    dimension_names: list[str] | None  # Names of these dimensions, if they have names
    effect: Effect
    advice: str
    every_row: NDArray[np.int64] = NO_INDICES  # All of the rows, also those that are not listed
    every_dimension: NDArray[np.int64] = NO_INDICES

    def document(self) -> dict[str, Any]:
        document = {**self._asdict(), "severity": self.severity.value, "effect": self.effect.document()}
        return {key: value for key, value in document.items() if not key.startswith("every_")}

    def in_file(self, rows: NDArray[np.int64] | None, dimensions: NDArray[np.int64] | None) -> Finding:
        """Translate rows and dimensions of a part of a file to those of the whole file."""
        finding = self
        if rows is not None:
            finding = finding._replace(rows=rows[self.rows].tolist(), every_row=rows[self.every_row])
        if dimensions is not None:
            every_dimension = dimensions[self.every_dimension]
            finding = finding._replace(dimensions=dimensions[self.dimensions].tolist(), every_dimension=every_dimension)
        return finding


def score_effects(before: Cloud, after: Cloud) -> list[Effect]:
    """Return the effect on each of ``SCORES`` between two clouds."""
    return [Effect(slug, before.moment_scores[slug], after.moment_scores[slug]) for slug in SCORES]


def judge(effects: Sequence[Effect], d: int) -> tuple[Effect, Severity]:
    """Return the first material effect and a warning; if none is material, the first effect and a note."""
    material = next((effect for effect in effects if effect.is_material(d)), None)
    return (effects[0], Severity.NOTE) if material is None else (material, Severity.WARNING)


def neighbors_kept_effect(share: float, se: float = 0.0) -> Effect:
    return Effect(NEIGHBORS_KEPT, Score(1.0), Score(share, se=se))


def percent(share: float) -> str:
    """Format a share; values below 1 never read as 100%, nor values above 0 as 0%."""
    if 0.995 < share < 1:
        return "nearly all"
    if 0 < share < 0.1:
        return f"{100 * share:.1f}%" if share >= 0.001 else f"{100 * max(share, 1e-6):.1g}%"
    return f"{100 * share:.0f}%"


def _is_undetermined(score: Score, d: int) -> bool:
    """Return whether the error exceeds both the value and rounding."""
    value, se = score.value or 0.0, score.se or 0.0
    return se > max(abs(value), LEAST_DIMENSIONS / max(d - 1, 1))
