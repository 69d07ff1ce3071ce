"""Findings, how their effect is judged, and the cloud as it passes through the checks.

Later checks leave out the rows and dimensions that an earlier one flags.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.catalog import NEIGHBORS_KEPT, Similarity
from isotropy.cloud import Cloud
from isotropy.cosine import unit_rows
from isotropy.findings.nearest import QUERIES, NearestRows, find_nearest, mean_overlap
from isotropy.isoscore import participation_ratio
from isotropy.rows import finite_chunks
from isotropy.score import Score

MAX_LISTED = 100  # Maximum rows, and dimensions, that a finding lists; counts include all
# A finding is a warning above this change of a score, share of changed nearest neighbors, or share of wrong rows.
MATERIAL = 0.05
NEGLIGIBLE_ERROR = 0.5  # Standard error of the participation ratio below which even a score of about 0 means something
# Scores whose change counts; the first that changes is reported. One huge row moves only the second.
SCORES = ("isoscore_unbiased", "isoscore")
FEWEST_ROWS = 8  # Independent rows below which the bias-corrected score is useless
SAMPLE_ROWS = 3000  # Maximum rows of the sample that checks use where they need no more
REFERENCE_ROWS = 200_000  # In clouds of more rows, neighbors are searched among a sample of the rows
FEW_QUERIES = 500  # Rows whose neighbors are compared before and after a change
FEWEST_DIMENSIONS = 3.0  # Effective dimensions below which the limits for norms and neighbors are unknown
NO_INDICES: NDArray[np.int64] = np.empty(0, np.int64)


class Severity(StrEnum):
    """How much a finding matters: worth knowing, changes the scores, or blocks any conclusion."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:  # 0 is the worst
        return (Severity.ERROR, Severity.WARNING, Severity.NOTE).index(self)


class Effect(NamedTuple):
    """A measure before and after the defect that a finding names is removed."""

    measure: str
    before: Score
    after: Score

    @property
    def change(self) -> float:
        """Absolute change; 1 if the measure is defined only afterward, 0 if it is undefined afterward."""
        if self.after.value is None:
            return 0.0
        return 1.0 if self.before.value is None else abs(self.after.value - self.before.value)

    def is_material(self, d: int) -> bool:
        """Return whether the change exceeds ``MATERIAL`` and its error, or makes a meaningless score meaningful."""
        if self.after.value is None:
            return False
        # A score means nothing if its error exceeds both its value and what is negligible.
        negligible_error = NEGLIGIBLE_ERROR / max(d - 1, 1)
        meaningless_before, meaningless_after = (
            (score.se or 0.0) > max(abs(score.value or 0.0), negligible_error) for score in (self.before, self.after)
        )
        changed = self.change > max(MATERIAL, self.after.se or 0.0)
        return changed or (meaningless_before and not meaningless_after)

    def to_dict(self) -> dict[str, Any]:
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
    rows: list[int]  # Row numbers from 0, in order; the first `MAX_LISTED`
    row_count: int
    names: list[str] | None  # Names of these rows, if rows have names
    dimensions: list[int]  # From 0, in order; the first `MAX_LISTED`
    dimension_count: int
    dimension_names: list[str] | None  # Names of these dimensions, if they have names
    effect: Effect
    advice: str
    all_rows: NDArray[np.int64] = NO_INDICES  # All rows, including unlisted ones
    all_dimensions: NDArray[np.int64] = NO_INDICES

    def to_dict(self) -> dict[str, Any]:
        values = {**self._asdict(), "severity": self.severity.value, "effect": self.effect.to_dict()}
        return {key: value for key, value in values.items() if not key.startswith("all_")}

    def renumber(self, file_rows: NDArray[np.int64] | None, file_dimensions: NDArray[np.int64] | None) -> "Finding":
        """Return the finding with indices of rows and dimensions in the file.

        The arguments hold the index in the file of each measured row and dimension; None if all of them were measured.
        """
        finding = self
        if file_rows is not None:
            finding = finding._replace(rows=file_rows[self.rows].tolist(), all_rows=file_rows[self.all_rows])
        if file_dimensions is not None:
            finding = finding._replace(
                dimensions=file_dimensions[self.dimensions].tolist(),
                all_dimensions=file_dimensions[self.all_dimensions],
            )
        return finding


def score_effects(before: Cloud, after: Cloud) -> list[Effect]:
    """Return how each of ``SCORES`` changes from one cloud to another; only plain IsoScore for few rows."""
    slugs = SCORES if after.n_independent >= FEWEST_ROWS else ("isoscore",)
    return [Effect(slug, before.moment_scores[slug], after.moment_scores[slug]) for slug in slugs]


def judge(effects: Sequence[Effect], d: int, affected_share: float = 0.0) -> tuple[Effect, Severity]:
    """Return the first material effect, or the first of ``effects`` if none is, and the severity: warning or note.

    It is a warning if an effect is material, or if ``affected_share``, the share of rows, dimensions or values that are
    wrong in themselves, exceeds ``MATERIAL``.
    """
    material = next((effect for effect in effects if effect.is_material(d)), None)
    severity = Severity.NOTE if material is None and affected_share <= MATERIAL else Severity.WARNING
    return material or effects[0], severity


def neighbors_kept_effect(share: float, se: float = 0.0) -> Effect:
    return Effect(NEIGHBORS_KEPT, Score(1.0), Score(share, se=se))


def percent(share: float) -> str:
    """Format a share; values below 1 never read as 100%, nor values above 0 as 0%."""
    if 0.995 < share < 1:
        return "nearly all"
    if 0 < share < 0.1:
        return f"{100 * share:.1f}%" if share >= 0.001 else f"{100 * max(share, 1e-6):.1g}%"
    return f"{100 * share:.0f}%"


def sample_participation(x: Tensor) -> float:
    """Return the participation ratio of points, float64 [n, d]; 1 if undefined."""
    y = x - x.mean(0)
    products = y @ y.T if len(y) < y.shape[1] else y.T @ y  # the smaller one: both have the same nonzero eigenvalues
    return participation_ratio(products).value or 1.0


@dataclass(frozen=True, eq=False)
class ExaminedCloud:
    """A cloud without the rows and dimensions that earlier checks flagged."""

    cloud: Cloud
    dimensions: NDArray[np.int64]  # For each dimension of the cloud, its index among all measured ones
    excluded_rows: NDArray[np.int64] = field(default_factory=lambda: NO_INDICES)  # Rows that earlier checks left out
    defect_slugs: frozenset[str] = frozenset()  # Slugs of the warnings and errors found so far

    @classmethod
    def from_cloud(cls, cloud: Cloud) -> "ExaminedCloud":
        return cls(cloud, np.arange(cloud.d))

    def without_rows(self, rows: NDArray[np.int64]) -> "ExaminedCloud":
        excluded_rows = np.union1d(self.excluded_rows, rows)
        return replace(self, cloud=self.cloud.without_rows(excluded_rows), excluded_rows=excluded_rows)

    def without_dimensions(self, dimensions: Iterable[int]) -> "ExaminedCloud":
        dropped = sorted(dimensions)
        cloud = self.cloud.without_dimensions(dropped)
        if len(self.excluded_rows):
            cloud = cloud.without_rows(self.excluded_rows)
        return replace(self, cloud=cloud, dimensions=np.delete(self.dimensions, dropped))

    @cached_property
    def sample(self) -> Tensor:
        return self.cloud.sample[:SAMPLE_ROWS].double()

    @cached_property
    def float64_mask(self) -> Tensor:
        """Mask [d] of dimensions whose values need more digits than float32 has."""
        return (self.sample.float().double() != self.sample).any(0)

    @cached_property
    def effective_dimensions(self) -> float:
        """Effective dimensions: the participation ratio, corrected for few rows where possible."""
        scores = self.cloud.moment_scores
        plain = scores["participation_ratio"].value
        corrected = scores["participation_ratio_unbiased"].value
        return min(max(corrected or plain or 1.0, 1.0), float(self.cloud.d))

    @cached_property
    def effective_directions(self) -> float:
        """Effective dimensions of the unit rows; unequal norms would inflate a single direction."""
        return min(max(sample_participation(unit_rows(self.sample)), 1.0), float(self.cloud.d))

    @property
    def has_spread(self) -> bool:
        """Whether checks can measure the cloud: at least 20 rows, not all equal, with finite moments."""
        scatter = self.cloud.moments.scatter
        return self.cloud.n >= 20 and bool(scatter.isfinite().all()) and float(scatter.trace()) > 0

    def all_rows(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows [m, d] that no check has left out, in chunks, with their positions [m]."""
        for chunk, positions, _ in finite_chunks(self.cloud.points):
            remaining = ~np.isin(positions, self.excluded_rows)
            yield chunk[torch.from_numpy(remaining)], torch.from_numpy(positions[remaining])

    def reference_rows(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows among which neighbors are searched, in chunks, with their positions."""
        if self.cloud.points.n > REFERENCE_ROWS:
            yield self.cloud.sample, self.cloud.rows
            return
        yield from self.all_rows()

    def nearest(self, similarity: Similarity) -> NearestRows:
        """Return the 10 nearest neighbors of at most ``QUERIES`` rows among ``reference_rows``, all centered."""
        mean = self.cloud.moments.mean
        chunks = ((rows.double() - mean, positions) for rows, positions in self.reference_rows())
        queries = self.cloud.sample[:QUERIES].double() - mean
        return find_nearest(queries, self.cloud.rows[:QUERIES], chunks, similarity)

    def neighbors_kept(self, changed: Tensor, similarity: Similarity = Similarity.COSINE) -> Effect:
        """Return the share of 10 nearest neighbors kept when the rows of ``sample`` become ``changed``."""
        return neighbors_kept_effect(*mean_overlap(self.sample, changed, FEW_QUERIES, similarity))


class Defect(NamedTuple):
    """A problem found by a check, which ``to_finding`` completes with names and advice."""

    slug: str
    severity: Severity
    title: str
    evidence: str
    effect: Effect
    rows: NDArray[np.int64] = NO_INDICES  # All positions among the measured rows, in order
    dimensions: NDArray[np.int64] = NO_INDICES  # Indices among the measured dimensions
    remaining: ExaminedCloud | None = None  # The cloud that later checks examine; None leaves it unchanged
    advice: str | None = None  # None takes the catalog's
