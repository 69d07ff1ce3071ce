"""A cloud of points, streamed from wherever it lies, and what many measures share of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from isotropy.anisotropy import mean_share, second_moment
from isotropy.cosine import CosineMoments
from isotropy.isoscore import isoscore_from_covariance, participation_ratio
from isotropy.jackknife import Jackknife, blocks_within
from isotropy.neighbours import Neighbours, distinct_rows, nearest_neighbours
from isotropy.partition import PartitionFunction
from isotropy.rows import Points, kept_rows
from isotropy.sample import Sample
from isotropy.score import Score
from isotropy.spectrum import eigenvalues, scaled_identity, shrink, without_rounding
from isotropy.topology import barcode
from isotropy.unbiased import FourthMoments, isoscore_unbiased_from_moments

SAMPLE_ROWS = 32_768
"""Rows drawn from a longer cloud, for what cannot be streamed."""

PAIR_ROWS = 20_000
"""Rows of the sample whose pairs are looked at: what takes n^2 distances is exact up to so many."""

BARCODE_ROWS = 2000
"""Rows of the sample between which bars are found, which takes n^2 memory."""

ZETA = 0.2
"""Shrinkage of the report's IsoScore*, towards the identity scaled to the points."""

NEIGHBOURS = 10
"""Nearest neighbours of each row that measures look at."""


@dataclass(frozen=True, eq=False)
class Labels:
    """The classes of rows."""

    codes: Tensor
    """int64 [rows], each a place in ``names``."""
    names: list[str]
    """Of the classes; an empty one is that of rows without a label."""

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return those of the first rows [m, d] that have a label, and their codes."""
        codes = self.codes[: len(rows)]
        if "" not in self.names:
            return rows, codes
        labelled = codes != self.names.index("")
        return rows[labelled], codes[labelled]


@dataclass(frozen=True, eq=False)
class Cloud:
    """What one pass over the rows leaves: rows with NaN or infinity are counted and left out of all the rest.

    Moments are products in float64 whatever the points are: rank and spectrum of a cloud live in its small variances.
    """

    points: Points
    blocks: Jackknife[FourthMoments]
    cosine_blocks: Jackknife[CosineMoments]
    sample: Tensor
    """[at most ``SAMPLE_ROWS``, d], drawn without replacement, in the order of drawing; all rows if they are few."""
    rows: Tensor
    """Places of the sample's rows among all, int64."""
    n_left_out: int

    @property
    def n(self) -> int:
        """Number of points."""
        return self.moments.n

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.moments.d

    @cached_property
    def moments(self) -> FourthMoments:
        """Of all points."""
        return self.blocks.total()

    @cached_property
    def moment_scores(self) -> dict[str, Score]:
        """What the moments alone give, by slug, with standard errors: all blocks are left out in turn but once."""
        return self.blocks.scores(_moment_scores)

    @cached_property
    def cosines(self) -> CosineMoments:
        """Of all points."""
        return self.cosine_blocks.total()

    @cached_property
    def eigenvalues(self) -> Tensor:
        """Variances along the principal components, float64 [d], greatest first."""
        return eigenvalues(self.moments.covariance(), rank=self.n - 1)

    @cached_property
    def energies(self) -> Tensor:
        """Eigenvalues of E[x x^T], float64 [d], greatest first: the mean counts."""
        return without_rounding(self._second_decomposed[0], rank=self.n)

    @cached_property
    def partition(self) -> PartitionFunction:
        """Of all points, from a second pass: its directions are known only after the first."""
        partition = PartitionFunction(self._second_decomposed[1])
        for chunk in self.chunks():
            partition.update(chunk)
        return partition

    @cached_property
    def _second_decomposed(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues, ascending, and eigenvectors of E[x x^T]; of moments that are not finite NaN."""
        second = second_moment(self.moments)
        if not second.isfinite().all():
            return torch.full_like(second[0], torch.nan), torch.full_like(second, torch.nan)
        values, vectors = torch.linalg.eigh(second)
        return values, vectors

    @cached_property
    def pairs(self) -> Tensor:
        """The rows whose pairs are looked at, [at most ``PAIR_ROWS``, d]."""
        # The sample is in random order, so that its head is a sample too.
        return self.sample[:PAIR_ROWS]

    @cached_property
    def neighbours(self) -> Neighbours:
        """The nearest among the distinct of ``pairs``: a copy of a point tells nothing of its surroundings."""
        # One more, to know where the last of them is tied with it.
        return nearest_neighbours(self.pairs[distinct_rows(self.pairs)], NEIGHBOURS + 1)

    @cached_property
    def bars(self) -> Tensor:
        """Bars in dimension 0 of at most ``BARCODE_ROWS`` rows, shortest first."""
        return barcode(self.sample[:BARCODE_ROWS])

    @cached_property
    def labels(self) -> Labels | None:
        """Classes of the rows of ``sample``; None where nothing is labelled."""
        if (labels := self.all_labels) is None:
            return None
        return Labels(labels.codes[self.rows], labels.names)

    @cached_property
    def all_labels(self) -> Labels | None:
        """Classes of all rows, in their order, those that are left out too; None where nothing is labelled."""
        if (values := self.points.labels()) is None:
            return None
        places: dict[str, int] = {}
        codes = np.fromiter((places.setdefault(value, len(places)) for value in values), np.int64, self.points.n)
        return Labels(torch.from_numpy(codes), list(places))

    def chunks(self) -> Iterator[Tensor]:
        """Yield the finite rows once more, in order."""
        for kept, _, _ in kept_rows(self.points):
            yield kept


def _moment_scores(moments: FourthMoments) -> dict[str, Score]:
    S = moments.covariance()
    return {
        "isoscore": isoscore_from_covariance(S),
        "isoscore_star": isoscore_from_covariance(shrink(S, scaled_identity(S), ZETA)),
        "isoscore_unbiased": isoscore_unbiased_from_moments(moments),
        "participation_ratio": participation_ratio(S),
        "mean_share": mean_share(moments),
    }


def read_cloud(points: Points, seed: int = 0, progress: Callable[[int], object] = lambda _: None) -> Cloud:
    """Stream the rows once; the sample is drawn by ``seed``, and ``progress`` told of how many rows were just read."""
    blocks = Jackknife(lambda: FourthMoments(points.d), points.n, blocks_within(points.d**2))
    cosine_blocks = Jackknife(lambda: CosineMoments(points.d), points.n)
    sample = Sample(min(points.n, SAMPLE_ROWS), points.d, points.dtype, seed)
    n_left_out = 0
    for kept, places, read in kept_rows(points):
        blocks.update(kept)
        cosine_blocks.update(kept)
        sample.update(kept.numpy(), places)
        n_left_out += read - len(kept)
        progress(read)
    drawn, rows = sample.drawn()
    return Cloud(
        points=points,
        blocks=blocks,
        cosine_blocks=cosine_blocks,
        sample=drawn,
        rows=rows,
        n_left_out=n_left_out,
    )
