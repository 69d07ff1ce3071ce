"""A cloud of points, read in one pass, with the moments and samples that its measures share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.anisotropy import mean_share, second_moment
from isotropy.catalog import Similarity
from isotropy.cosine import CosineMoments
from isotropy.isoscore import isoscore_from_ratio, participation_ratio, shrink_ratio
from isotropy.neighbors import BlockNeighbors, NearestNeighbors
from isotropy.pairs import PairMeasures, measure_euclidean_pairs, measure_pairs
from isotropy.partition import PartitionFunction
from isotropy.rows import (
    Dealing,
    Duplicates,
    Points,
    Sample,
    ScaledPoints,
    SelectedDimensions,
    deal_groups,
    finite_chunks,
    unit_for,
)
from isotropy.score import BLOCKS, Jackknife, Score, count_blocks_in_memory
from isotropy.spectrum_errors import Decomposition, scores_without_blocks, spectrum_scores
from isotropy.topology import barcode
from isotropy.unbiased import BlockProducts, FourthMoments, corrected_scores_from_moments, scores_across_blocks

SAMPLE_ROWS = 32_768  # Rows sampled from a larger cloud, for statistics that cannot be streamed
PAIR_ROWS = 20_000  # Rows of the sample for pairwise measures, which are exact up to this number of rows
BARCODE_ROWS = 2000  # Rows of the sample used for bars, which take n^2 memory
ZETA = 0.2  # Shrinkage of the report's IsoScore*, toward the identity scaled to the points
NEIGHBORS = 10  # Nearest neighbors per row
# Measures without standard error: they are biased for few rows, so an interval would not cover the truth.
WITHOUT_ERROR = ("isoscore", "isoscore_star", "participation_ratio")


@dataclass(frozen=True, eq=False)
class RowLabels:
    """Class labels of rows."""

    codes: Tensor  # int64 [rows], each an index into `names`
    names: list[str]  # Class names; an empty name stands for rows without a label

    def drop_unlabeled(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the labeled rows among the first m rows, [m, d], and their class codes."""
        codes = self.codes[: len(rows)]
        if "" not in self.names:
            return rows, codes
        has_label = codes != self.names.index("")
        return rows[has_label], codes[has_label]


@dataclass(frozen=True, eq=False)
class Cloud:
    """Sums and samples of rows, read in one pass; rows with NaN or infinity are only counted.

    Moments are float64, because rank and spectrum depend on small variances. Points, moments and samples are in units
    of ``unit``; scores are in the file's units.
    """

    points: Points
    dealing: Dealing  # Which rows are independent; standard errors and the bias correction depend on it
    blocks: Jackknife[FourthMoments]
    cosine_blocks: Jackknife[CosineMoments]
    # [at most `SAMPLE_ROWS`, d], drawn without replacement, in the order of drawing; all rows if they are few.
    sample: Tensor
    rows: Tensor  # Positions of the sample's rows in the file, int64
    n_left_out: int  # Rows with NaN or infinity
    n_independent: int  # Number of independent rows: the rows of one group of `dealing` count as one
    # A power of two, 1 unless the points are so large or so small that their fourth powers leave float64.
    unit: float = 1.0
    similarity: Similarity = Similarity.COSINE  # Similarity of nearest neighbors

    @property
    def n(self) -> int:
        return self.moments.n

    @property
    def d(self) -> int:
        return self.moments.d

    @cached_property
    def moments(self) -> FourthMoments:
        return self.blocks.total()

    @cached_property
    def moment_scores(self) -> dict[str, Score]:
        """Scores from the moments, by slug, with standard errors except for ``WITHOUT_ERROR``."""
        ratio = participation_ratio(self.moments.scatter)  # of any multiple of the covariance
        scores = {
            "isoscore": isoscore_from_ratio(ratio, self.d),
            "isoscore_star": isoscore_from_ratio(shrink_ratio(ratio, self.d, ZETA), self.d),
            "participation_ratio": ratio,
        }
        mean_share_score = {"mean_share": mean_share(self.moments)}
        if self.n == 0:
            return scores | mean_share_score | corrected_scores_from_moments(self.moments)
        block_products = BlockProducts(self.blocks.parts)
        left_out = (block_products.scores_without(block) for block in range(len(block_products)))
        if self.dealing.grouping == "rows":
            totals = mean_share_score | corrected_scores_from_moments(self.moments)
            return scores | self.blocks.with_errors(totals, left_out)
        totals = mean_share_score | scores_across_blocks(block_products)
        group_scores = (
            scores_left_out | scores_across_blocks(block_products, block)
            for block, scores_left_out in enumerate(left_out)
        )
        return scores | self.blocks.with_errors(totals, group_scores, self.n_independent)

    def without_rows(self, rows: NDArray[np.int64]) -> "Cloud":
        """Return the cloud without the rows at some positions; its ``cosine_blocks`` and ``points`` keep all rows.

        Sums are recomputed, because subtracting a huge row from them would leave its rounding error.
        """
        blocks = _empty_fourth_moments(self.points)
        is_remaining = np.zeros(self.points.n, bool)
        for chunk, positions, _ in finite_chunks(self.points):
            remaining = ~np.isin(positions, rows)
            blocks.update(
                chunk[torch.from_numpy(remaining)], self.dealing.blocks_of(positions[remaining], blocks.blocks)
            )
            is_remaining[positions[remaining]] = True
        remaining = ~np.isin(self.rows.numpy(), rows)
        n_independent = self.dealing.count_groups(is_remaining)
        sample, sample_rows = self.sample[remaining], self.rows[remaining]
        return replace(self, blocks=blocks, sample=sample, rows=sample_rows, n_independent=n_independent)

    def without_dimensions(self, dimensions: Iterable[int]) -> "Cloud":
        """Return the cloud without some dimensions, reusing second moments; ``cosine_blocks`` keep all dimensions."""
        dropped = torch.zeros(self.d, dtype=torch.bool)
        dropped[list(dimensions)] = True
        points = SelectedDimensions(self.points, (~dropped).nonzero().squeeze(1).numpy())
        blocks = self.blocks.map(lambda part: part.select_dimensions(~dropped))
        for chunk, positions, _ in finite_chunks(points):
            row_blocks = self.dealing.blocks_of(positions, blocks.blocks)
            for block, part in enumerate(blocks.all_parts):
                part.add_distances(chunk[torch.from_numpy(row_blocks == block)])
        return replace(self, points=points, blocks=blocks, sample=self.sample[:, ~dropped])

    @cached_property
    def spectrum_scores(self) -> dict[str, Score]:
        """Scores from the eigenvalues with standard errors, by slug; by "slug k" for the k-th value of a list."""
        scores = spectrum_scores(self.eigenvalues, self.energies, self.n)
        left_out = scores_without_blocks(self._covariance, self._second_moment, self.blocks.parts, self.moments)
        with_errors = self.blocks.with_errors(scores, left_out, self.n_independent)
        return with_errors | {"spectrum": with_errors["spectrum"].times(self.unit, self.unit)}

    @cached_property
    def cosines(self) -> CosineMoments:
        return self.cosine_blocks.total()

    @property
    def eigenvalues(self) -> Tensor:
        """Variances along the principal components, float64 [d], descending."""
        return self._covariance.values

    @property
    def energies(self) -> Tensor:
        """Eigenvalues of E[x x^T], float64 [d], descending; includes the mean."""
        return self._second_moment.values

    @cached_property
    def _covariance(self) -> Decomposition:
        return Decomposition.from_matrix(self.moments.covariance(), self.n - 1)

    @cached_property
    def _second_moment(self) -> Decomposition:
        return Decomposition.from_matrix(second_moment(self.moments), self.n)

    @cached_property
    def partition(self) -> PartitionFunction:
        """Partition function of all points, from a second pass, once its directions are known."""
        partition = PartitionFunction(self._second_moment.vectors)
        for chunk, _, _ in finite_chunks(self.points):
            # Use the original scale, because exp(c.x) depends on it.
            partition.update(chunk if self.unit == 1 else chunk * self.unit)
        return partition

    @property
    def pair_rows(self) -> Tensor:
        """Rows for pairwise measures, [at most ``PAIR_ROWS``, d]."""
        # The sample is in random order, so that its head is a sample too.
        return self.sample[:PAIR_ROWS]

    @cached_property
    def pair_measures(self) -> PairMeasures:
        """Nearest neighbors and uniformity of ``pair_rows``; one neighbor more than measures use, to detect ties."""
        return measure_pairs(self.pair_rows, NEIGHBORS + 1, self.similarity)

    @property
    def neighbors(self) -> NearestNeighbors:
        """Nearest neighbors among the distinct rows of ``pair_rows``."""
        return self.pair_measures.neighbors

    @cached_property
    def euclidean_pairs(self) -> PairMeasures:
        """``pair_measures`` by Euclidean distance, whatever the similarity of the cloud."""
        if self.similarity is Similarity.EUCLIDEAN:
            return self.pair_measures
        return measure_euclidean_pairs(self.pair_rows, NEIGHBORS + 1)

    def row_of(self, point: int) -> int:
        """Return the first position in the file of a point of ``pair_measures`` or its copies in ``pair_rows``."""
        row = self.pair_rows[self.pair_measures.distinct_rows[point]]
        candidates = (self.pair_rows[:, 0] == row[0]).nonzero().squeeze(1)  # few rows share the first value
        return int(self.rows[candidates][(self.pair_rows[candidates] == row).all(1)].min())

    @cached_property
    def block_neighbors(self) -> BlockNeighbors:
        """Euclidean neighbors of the distinct ``pair_rows``, also within their blocks, for standard errors."""
        pairs = self.euclidean_pairs
        positions = self.rows[: len(self.pair_rows)][pairs.distinct_rows].numpy()
        blocks = self.dealing.blocks_of(positions, BLOCKS)
        return BlockNeighbors(pairs.points, blocks, NEIGHBORS + 1, pairs.neighbors)

    @cached_property
    def bars(self) -> Tensor:
        """Lengths of the H0 bars of at most ``BARCODE_ROWS`` rows, ascending."""
        return barcode(self.sample[:BARCODE_ROWS])

    @cached_property
    def labels(self) -> RowLabels | None:
        """Labels of the rows of ``sample``; None if nothing is labeled."""
        if (labels := self.all_labels) is None:
            return None
        return RowLabels(labels.codes[self.rows], labels.names)

    @cached_property
    def all_labels(self) -> RowLabels | None:
        """Labels of all rows in file order, including rows left out; None if nothing is labeled."""
        if (values := self.points.labels()) is None:
            return None
        codes_by_name: dict[str, int] = {}
        codes = np.fromiter(
            (codes_by_name.setdefault(value, len(codes_by_name)) for value in values), np.int64, self.points.n
        )
        return RowLabels(torch.from_numpy(codes), list(codes_by_name))


def read_cloud(
    points: Points,
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
    similarity: Similarity = Similarity.COSINE,
) -> Cloud:
    """Read rows into a cloud, in two passes if some are exact duplicates.

    Equal rows form one group unless the points have groups. ``seed`` draws the sample, ``progress`` is called after
    each chunk with the chunk's number of rows, and ``similarity`` defines neighbors.
    """
    groups = points.groups()
    duplicates = Duplicates(points.n)
    dealing = duplicates.dealing() if groups is None else deal_groups(groups, points.n)
    sums = _Sums.empty(points)
    sample = Sample(min(points.n, SAMPLE_ROWS), points.d, points.dtype, seed)
    is_finite = np.zeros(points.n, bool)
    unit = 0.0  # the unit stays 0 while all numbers are 0
    for rows, positions, n_read in finite_chunks(points):
        if (larger := unit_for(rows, unit)) != unit:
            for part in sums.blocks.parts:  # Cosines do not depend on the unit
                part.rescale(unit / larger)
            sample.rescale(unit / larger)
            unit = larger
        scaled_rows = rows / unit if unit not in (0, 1) else rows
        sums.update(scaled_rows, dealing, positions)
        sample.update(scaled_rows.numpy(), positions)
        if groups is None:
            duplicates.update(rows.numpy(), positions)
        is_finite[positions] = True
        progress(n_read)
    if unit not in (0, 1):
        points = ScaledPoints(points, unit)
    if groups is None and (duplicate_dealing := duplicates.dealing()).grouping == "duplicates":
        dealing, sums = duplicate_dealing, _Sums.empty(points)
        for scaled_rows, positions, _ in finite_chunks(points):
            sums.update(scaled_rows, dealing, positions)
    return Cloud(
        points,
        dealing,
        *sums,
        *sample.drawn_rows(),
        n_left_out=int((~is_finite).sum()),
        n_independent=dealing.count_groups(is_finite),
        unit=unit or 1.0,
        similarity=similarity,
    )


def _empty_fourth_moments(points: Points) -> Jackknife[FourthMoments]:
    return Jackknife(lambda: FourthMoments(points.d), count_blocks_in_memory(points.d**2))


class _Sums(NamedTuple):
    """Sums over the rows of each block, in the order of the fields of ``Cloud``."""

    blocks: Jackknife[FourthMoments]
    cosine_blocks: Jackknife[CosineMoments]

    @classmethod
    def empty(cls, points: Points) -> "_Sums":
        return cls(_empty_fourth_moments(points), Jackknife(lambda: CosineMoments(points.d)))

    def update(self, rows: Tensor, dealing: Dealing, positions: NDArray[np.int64]) -> None:
        for jackknife in self:
            jackknife.update(rows, dealing.blocks_of(positions, jackknife.blocks))
