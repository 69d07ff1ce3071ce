"""Rows far enough out to dominate the scores: detected against the other rows, judged by the scores without them.

Squared distances from the median are compared with a heavy-tailed cloud of the same spread, Student's t with 5 to 10
degrees of freedom by the 90% point over the median. With PR the participation ratio, distances over their mean then
follow about an F distribution (Satterthwaite 1946). Scale and PR are those of the remaining rows.

If m rows are expected as far out as the k-th farthest, the surprise is k log(k / m) - (k - m) (Berk & Jones 1979); its
maximum over k is compared with the value that t clouds exceed once in a thousand.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, fdtri
from torch import Tensor

from isotropy.cloud import Cloud
from isotropy.findings.finding import Defect, ExaminedCloud, judge, percent, sample_participation, score_effects
from isotropy.score import FEWEST_FOR_SE

LIMIT = 9.0  # Maximum excess that t5 clouds exceed less than once in a thousand: see docs/statistics.md, Outlier rows
MIN_TAIL = 5  # Degrees of freedom of the t distribution whose tails pass as healthy in every cloud
MAX_TAIL = 10  # Maximum degrees of freedom, assumed if the distances of inner rows vary that little
INNER_QUANTILE = 0.9  # Quantile of the distances compared with the median; beyond it there may be outliers
RANK_MARGIN = 3.0  # Standard errors added to the rank of that quantile, so that no tail looks light by chance
MIN_EXCESS_RATIO = 10  # Minimum ratio of outliers to those of a t cloud; norms that merely vary more do not reach it
SCANNED_PART = 4  # The farthest 1 / SCANNED_PART of the rows are examined
MAX_FRACTION = 10  # At most 1 / MAX_FRACTION of the rows are outliers; more count as part of the cloud
BULK_ROWS = 4096  # Rows of the sample from which center and spread of the bulk are first estimated
ROUNDS = 4  # Maximum number of scans, each with the spread of the rows left by the previous one


class _Distances(NamedTuple):
    """Squared distance of each finite row from the center."""

    squares: NDArray[np.float64]
    positions: NDArray[np.int64]


class _Scan(NamedTuple):
    """Outlier rows, the distance of the nearest of them in medians, and the number expected in a t cloud."""

    rows: NDArray[np.int64]
    nearest: float
    expected: float
    tail: int  # Degrees of freedom of that cloud


def outlier_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows too far out for a heavy-tailed cloud; None if there are none.

    It is a warning if IsoScore (bias-corrected or plain) changes materially or is determined only without them.
    """
    cloud = examined.cloud
    if cloud.n < FEWEST_FOR_SE or cloud.d < 2 or not cloud.moments.scatter.isfinite().all():
        return None
    center, bulk = center_and_bulk(cloud.sample[:BULK_ROWS].double())
    squares, positions = [], []
    for x, row_positions in examined.all_rows():
        squares.append((x.double() - center).square().sum(1).numpy())
        positions.append(row_positions.numpy())
    distances = _Distances(np.concatenate(squares), np.concatenate(positions))
    scan = _scan_outliers(cloud, distances, bulk)
    for _ in range(ROUNDS):
        if scan is None:
            return None
        remaining, previous_scan = examined.without_rows(scan.rows), scan
        scan = _scan_outliers(cloud, distances, remaining.cloud.moment_scores["participation_ratio"].value or 1.0)
        if scan is not None and np.array_equal(scan.rows, previous_scan.rows):
            break
    else:
        return None
    effect, severity = judge(score_effects(cloud, remaining.cloud), cloud.d)
    squared_shift: Tensor = (remaining.cloud.moments.mean - cloud.moments.mean).square().sum()
    scatter_left = remaining.cloud.moments.scatter.trace() + remaining.cloud.n * squared_shift
    share = float(1 - scatter_left / cloud.moments.scatter.trace())
    count = len(scan.rows)
    holders, subject = ("1 row holds", "It is") if count == 1 else (f"{count:,} rows hold", "Each is at least")
    return Defect(
        slug="outlier_rows",
        severity=severity,
        title=f"{holders} {percent(share)} of the variance",
        evidence=(
            f"{subject} {scan.nearest:,.3g} times as far from the center as the median row, by squared distance. "
            f"A healthy cloud with heavy tails (Student's t, {scan.tail} degrees of freedom) would have about "
            f"{scan.expected:.1g} such rows."
        ),
        effect=effect,
        rows=scan.rows,
        remaining=remaining,
    )


def center_and_bulk(x: Tensor) -> tuple[Tensor, float]:
    """Return the median [d] of points, float64 [n, d], and the participation ratio of the nine tenths nearest to it."""
    center = x.median(0).values
    y = x - center
    lengths = y.square().sum(1)
    return center, sample_participation(y[lengths <= lengths.quantile(1 - 1 / MAX_FRACTION)])


def _scan_outliers(cloud: Cloud, distances: _Distances, participation: float) -> _Scan | None:
    """Return the farthest rows if they are too far out for a t cloud with that participation ratio."""
    group_squares = distances.squares
    if cloud.dealing.group_numbers is not None:
        # The largest distance in each group, because copies of a row carry no extra evidence.
        _, numbers = np.unique(cloud.dealing.group_numbers[distances.positions], return_inverse=True)
        group_squares = np.zeros(int(numbers.max()) + 1)
        np.maximum.at(group_squares, numbers, distances.squares)
    scale = float(np.median(group_squares))
    count = len(group_squares) // SCANNED_PART
    if scale == 0 or count == 0:
        return None
    farthest = np.sort(group_squares)[::-1][:count] / scale
    # Rows of a named group may be independent, so each one counts as a chance to lie far out.
    n_chances = cloud.n if cloud.dealing.grouping == "groups" else len(group_squares)
    tail = tail_degrees(group_squares / scale, participation)
    expected = expected_beyond(n_chances, participation, farthest, tail)
    excess = surprise(expected)
    if excess.max() <= LIMIT:
        return None
    # Include all rows farther out than the farthest of a t cloud.
    last_outlier = max(int(excess.argmax()), int((expected <= 1).sum()) - 1)
    if (last_outlier + 1) * MAX_FRACTION > len(group_squares):
        return None
    # Only the farthest row of each group was ranked; its other rows are on either side of the gap.
    is_outlier = distances.squares > scale * (farthest[last_outlier] * farthest[last_outlier + 1]) ** 0.5
    nearest = distances.squares[is_outlier].min(keepdims=True) / scale
    expected_count = float(expected_beyond(n_chances, participation, nearest, tail)[0])
    return _Scan(distances.positions[is_outlier], float(nearest[0]), expected_count, tail)


def tail_degrees(ratios: NDArray[np.float64], participation: float) -> int:
    """Return the degrees of freedom, ``MIN_TAIL`` to ``MAX_TAIL``, that fit distances over their median [n]."""
    n = len(ratios)
    rank = int(np.ceil(INNER_QUANTILE * n + RANK_MARGIN * (INNER_QUANTILE * (1 - INNER_QUANTILE) * n) ** 0.5))
    if rank >= n:
        return MIN_TAIL
    inner = np.partition(ratios, rank)[rank]
    tails = np.arange(MIN_TAIL, MAX_TAIL + 1)
    lighter_tails = tails[fdtri(participation, tails, INNER_QUANTILE) >= inner * fdtri(participation, tails, 0.5)]
    return int(lighter_tails.max(initial=MIN_TAIL))


def surprise(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the surprise (see the module) of the k farthest rows for each k; 0 below ``MIN_EXCESS_RATIO`` times m.

    ``expected`` holds m for each k: how many rows are expected as far out as the k-th farthest.
    """
    k = np.arange(1, len(expected) + 1)
    return np.where(k >= MIN_EXCESS_RATIO * expected, k * np.log(k / expected) - (k - expected), 0)


def expected_beyond(n_rows: int, participation: float, ratios: NDArray[np.float64], tail: int) -> NDArray[np.float64]:
    """Return how many of ``n_rows`` rows of a t cloud are expected beyond each of ``ratios`` of the median; above 0.

    Ratios are of squared distances from the center.
    """
    expected: NDArray[np.float64] = n_rows * fdtrc(participation, tail, ratios * fdtri(participation, tail, 0.5))
    return np.maximum(expected, 1e-300)
