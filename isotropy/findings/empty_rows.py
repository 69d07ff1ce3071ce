"""Rows that are all zero, and rows that hold only the first dimensions of a longer vector."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.findings.finding import (
    Defect,
    ExaminedCloud,
    Severity,
    judge,
    neighbors_kept_effect,
    percent,
    score_effects,
)

NO_DIRECTION = 1e-6  # Fraction of the median norm up to which a row is zero: its direction is rounding of float32
CHANCE = 0.001  # Rows are a defect only if fewer such rows than this are expected by chance
FEWEST_WHOLE = 20  # Minimum number of rows that are not zero, or not cut off, for estimating what chance does


def zero_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows of zeros, unless zeros are so frequent in the dimensions that such rows occur by chance."""
    if not examined.has_spread:
        return None
    chunk_norms, chunk_positions = [], []
    zero_counts = torch.zeros(examined.cloud.d, dtype=torch.float64)
    for rows, positions in examined.all_rows():
        chunk_norms.append(torch.linalg.vector_norm(rows.double(), dim=1).numpy())
        zero_counts += (rows == 0).sum(0)
        chunk_positions.append(positions.numpy())
    norms, all_positions = np.concatenate(chunk_norms), np.concatenate(chunk_positions)
    is_zero = norms <= NO_DIRECTION * np.median(norms)
    count, n = int(is_zero.sum()), len(norms)
    if not 0 < count <= n - FEWEST_WHOLE:
        return None
    # Laplace's rule of succession: how often each dimension is zero in the other rows.
    chances = ((zero_counts - count).clamp(min=0) + 1) / (n - count + 2)
    if n * float(chances.log().sum().exp()) > CHANCE:
        return None
    remaining = examined.without_rows(all_positions[is_zero])
    effects = [neighbors_kept_effect(1 - count / n), *score_effects(examined.cloud, remaining.cloud)]
    subject = "1 row is" if count == 1 else f"{count:,} rows are"
    return Defect(
        slug="zero_rows",
        severity=Severity.WARNING,
        title=f"{subject} zero",
        evidence=(
            f"{count:,} of {n:,} rows ({percent(count / n)}) {'is' if count == 1 else 'are'} zero in every dimension, "
            "up to rounding. They have no direction: cosines with them are undefined, and no row is their neighbor."
        ),
        effect=judge(effects, examined.cloud.d)[0],
        rows=all_positions[is_zero],
        remaining=remaining,
    )


class _Tails(NamedTuple):
    """The tail of each row: the dimensions at its end that hold the fill value.

    The fill value, such as 0, is the most frequent last value among rows whose last two values are equal. Rows that do
    not end in it are whole.
    """

    positions: NDArray[np.int64]  # [n], of all rows
    lengths: Tensor  # int64 [n], 0 to d: number of dimensions at the end that hold the fill value
    fill_counts: Tensor  # int64 [n]: number of dimensions anywhere that hold the fill value
    fill_shares: Tensor  # float64 [d]: share of whole rows that hold the fill value in each dimension


def truncated_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows whose last dimensions all hold one value, such as 0, while other rows vary there."""
    cloud = examined.cloud
    if not examined.has_spread or cloud.d < 4 or (tails := _read_tails(examined)) is None:
        return None
    # Take the larger log probability of a tail this long under two models: either each dimension holds the fill value
    # independently, as often as in whole rows, or the fill values of the row are spread over random dimensions.
    start = torch.zeros(1, dtype=torch.float64)
    log_chances_by_length = torch.cat([start, tails.fill_shares.flip(0).log().cumsum(0)])
    log_factorials = torch.cat([start, torch.arange(1, cloud.d + 1, dtype=torch.float64).log().cumsum(0)])
    log_chances_by_row = log_factorials[tails.fill_counts] - log_factorials[tails.fill_counts - tails.lengths]
    log_chances_by_row += log_factorials[cloud.d - tails.lengths] - log_factorials[cloud.d]
    log_chances = torch.maximum(log_chances_by_length[tails.lengths], log_chances_by_row)
    is_cut = log_chances + np.log(cloud.n) <= np.log(CHANCE)
    count = int(is_cut.sum())
    if count == 0:
        return None
    positions = tails.positions[is_cut.numpy()]
    remaining = examined.without_rows(positions)
    if not remaining.has_spread:
        return None
    prefix_lengths = cloud.d - tails.lengths[is_cut]
    shortest, longest = int(prefix_lengths.min()), int(prefix_lengths.max())
    prefix = f"first {longest:,}" if shortest == longest else f"first {shortest:,} to {longest:,}"
    share = percent(count / cloud.n)
    return Defect(
        slug="truncated_rows",
        severity=Severity.WARNING,
        title=f"{count:,} {'row holds' if count == 1 else 'rows hold'} only the {prefix} of {cloud.d:,} dimensions",
        evidence=(
            f"{count:,} of {cloud.n:,} rows ({share}) {'has' if count == 1 else 'have'} one value in all later "
            f"dimensions, where other rows differ. By chance fewer than {CHANCE:g} such rows are expected."
        ),
        effect=judge(score_effects(cloud, remaining.cloud), cloud.d)[0],
        rows=positions,
        dimensions=examined.dimensions[longest:],
        remaining=remaining,
    )


def _read_tails(examined: ExaminedCloud) -> _Tails | None:
    """Return the tails of all rows; None if no row's last two values are equal, or too few rows are whole."""
    repeated_values = torch.cat([rows[rows[:, -1] == rows[:, -2], -1] for rows, _ in examined.all_rows()])
    if len(repeated_values) == 0:
        return None
    fill = repeated_values.mode().values
    chunk_lengths, chunk_counts, chunk_positions = [], [], []
    counts_in_whole_rows = torch.zeros(examined.cloud.d, dtype=torch.float64)
    for rows, positions in examined.all_rows():
        is_fill = rows == fill
        differs = ~is_fill.flip(1)
        chunk_lengths.append(torch.where(differs.any(1), differs.int().argmax(1), rows.shape[1]))
        chunk_counts.append(is_fill.sum(1))
        chunk_positions.append(positions.numpy())
        counts_in_whole_rows += is_fill[~is_fill[:, -1]].sum(0)
    lengths = torch.cat(chunk_lengths)
    n_whole = int((lengths == 0).sum())
    if n_whole < FEWEST_WHOLE:
        return None
    # Whole rows never end in the fill value, so they do not show how often the last dimension holds it by chance.
    shares = (counts_in_whole_rows + 1) / (n_whole + 2)
    shares[-1] = 1
    return _Tails(np.concatenate(chunk_positions), lengths, torch.cat(chunk_counts), shares)
