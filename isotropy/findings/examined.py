"""A cloud on its way through the checks: what is mended is left out of what is looked at next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.cloud import Cloud
from isotropy.cosine import unit_rows
from isotropy.findings.finding import Effect, Severity, neighbors_kept_effect
from isotropy.findings.nearest import QUERIES, NearestRows, Similarity, find_nearest, mean_overlap
from isotropy.isoscore import participation_ratio
from isotropy.rows import finite_chunks

SAMPLE_ROWS = 3000  # Rows looked at where a statistic is known well enough from so many
REFERENCE_ROWS = 200_000  # Rows up to which neighbors are sought among all; of more rows among a sample
FEW_QUERIES = 500  # Rows whose neighbors are compared before and after a change
FEWEST_DIMENSIONS = 3.0  # Effective dimensions below which limits of norms and neighbors are not known
NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Examined:
    """A cloud without the rows and dimensions that earlier checks blamed."""

    cloud: Cloud
    dimensions: NDArray[np.int64]  # The number in the file of each of the cloud's dimensions
    gone: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)  # Rows that the cloud is looked at without
    blamed: frozenset[str] = frozenset()  # Slugs of what was found that serves as an explanation

    @classmethod
    def from_cloud(cls, cloud: Cloud) -> Examined:
        return cls(cloud, np.arange(cloud.d))

    def without_rows(self, rows: NDArray[np.int64], remaining: Cloud | None = None) -> Examined:
        """Leave out rows; ``remaining`` is the cloud without them, if already computed."""
        gone = np.union1d(self.gone, rows)
        return replace(self, cloud=self.cloud.without_rows(gone) if remaining is None else remaining, gone=gone)

    def without_dimensions(self, dimensions: Iterable[int]) -> Examined:
        dropped = sorted(dimensions)
        cloud = self.cloud.without_dimensions(dropped)
        if len(self.gone):
            cloud = cloud.without_rows(self.gone)
        return replace(self, cloud=cloud, dimensions=np.delete(self.dimensions, dropped))

    @cached_property
    def sample(self) -> Tensor:
        return self.cloud.sample[:SAMPLE_ROWS].double()

    @cached_property
    def is_fine(self) -> Tensor:
        """Mask [d] of dimensions whose values need more digits than float32 has."""
        return (self.sample.float().double() != self.sample).any(0)

    @property
    def sample_rows(self) -> Tensor:
        """Positions of the rows of ``sample`` in the file."""
        return self.cloud.rows[:SAMPLE_ROWS]

    @cached_property
    def ratio(self) -> float:
        """Effective dimensions: the participation ratio, corrected for few rows where it can be."""
        scores = self.cloud.moment_scores
        plain = scores["participation_ratio"].value
        corrected = scores["participation_ratio_unbiased"].value
        return min(max(corrected or plain or 1.0, 1.0), float(self.cloud.d))

    @cached_property
    def ratio_of_directions(self) -> float:
        """Effective dimensions of the unit rows; unequal norms would inflate a single direction."""
        y = unit_rows(self.sample)
        y = y - y.mean(0)
        products = y @ y.T if len(y) < y.shape[1] else y.T @ y
        return min(max(participation_ratio(products).value or 1.0, 1.0), float(self.cloud.d))

    @property
    def units(self) -> int:
        return max(min(self.cloud.dealing.groups, self.cloud.n), 0)

    @property
    def is_spread(self) -> bool:
        """Whether statistics make sense: at least 20 rows, not all equal, with finite moments."""
        scatter = self.cloud.moments.scatter
        return self.cloud.n >= 20 and bool(scatter.isfinite().all()) and float(scatter.trace()) > 0

    def references(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows among which neighbors are searched, and their positions."""
        if self.cloud.points.n > REFERENCE_ROWS:
            yield self.cloud.sample, self.cloud.rows
            return
        for chunk, positions, _ in finite_chunks(self.cloud.points):
            remaining = ~np.isin(positions, self.gone)
            yield chunk[torch.from_numpy(remaining)], torch.from_numpy(positions[remaining])

    def nearest(self, similarity: Similarity) -> NearestRows:
        """Return the 10 nearest neighbors of at most ``QUERIES`` centered rows among all rows."""
        mean = self.cloud.moments.mean
        chunks = ((rows.double() - mean, positions) for rows, positions in self.references())
        queries = self.cloud.sample[:QUERIES].double() - mean
        return find_nearest(queries, self.cloud.rows[:QUERIES], chunks, similarity)

    def neighbors_kept(self, changed: Tensor, similarity: Similarity = "cosine") -> Effect:
        """Return the share of 10 nearest neighbors kept when the rows of ``sample`` become ``changed``."""
        return neighbors_kept_effect(*mean_overlap(self.sample, changed, FEW_QUERIES, similarity))


class Defect(NamedTuple):
    """A defect found by a check."""

    slug: str
    severity: Severity
    title: str
    evidence: str
    effect: Effect
    rows: NDArray[np.int64] = NO_ROWS  # All places in the file, in order
    dimensions: NDArray[np.int64] = NO_ROWS  # Numbers in the file
    remaining: Examined | None = None  # The cloud that later checks examine instead
    advice: str | None = None  # Advice that replaces the catalog's
