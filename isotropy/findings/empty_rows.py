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
CHANCE = 0.001  # Rows are a defect only if chance explains fewer of them than this
FEWEST_WHOLE = 20  # Minimum number of whole rows, from which chances are estimated


def zero_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows of zeros, unless zeros are so frequent in the dimensions that such rows occur by chance."""
    if not examined.has_spread:
        return None
    norms, all_positions = [], []
    zeros = torch.zeros(examined.cloud.d, dtype=torch.float64)
    for rows, positions in examined.all_rows():
        norms.append(torch.linalg.vector_norm(rows.double(), dim=1).numpy())
        zeros += (rows == 0).sum(0)
        all_positions.append(positions.numpy())
    lengths, rows_read = np.concatenate(norms), np.concatenate(all_positions)
    is_zero = lengths <= NO_DIRECTION * np.median(lengths)
    count, n = int(is_zero.sum()), len(lengths)
    if not 0 < count <= n - FEWEST_WHOLE:
        return None
    # Laplace's rule of succession: how often each dimension is zero in the other rows.
    chances = ((zeros - count).clamp(min=0) + 1) / (n - count + 2)
    if n * float(chances.log().sum().exp()) > CHANCE:
        return None
    remaining = examined.without_rows(rows_read[is_zero])
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
        rows=rows_read[is_zero],
        remaining=remaining,
    )


class _Tails(NamedTuple):
    """The tail of each row: the dimensions at its end that hold the fill value.

    The fill value, such as 0, is the most frequent last value among rows whose last two values are equal. Rows that do
    not end in it are whole.
    """

    positions: NDArray[np.int64]
    lengths: Tensor  # int64 [n], 0 to d, the dimensions at the end that hold the fill
    repeats: Tensor  # int64 [n], the dimensions anywhere that hold the fill
    fill_shares: Tensor  # float64 [d], the share of whole rows that hold the fill in each dimension


def truncated_rows(examined: ExaminedCloud) -> Defect | None:
    """Find rows whose last dimensions all hold one value, such as 0, while other rows vary there."""
    cloud = examined.cloud
    if not examined.has_spread or cloud.d < 4 or (tails := _read_tails(examined)) is None:
        return None
    # Compute the log probability of a tail this long under two models, and take the larger: either each dimension holds
    # the fill independently, as often as in whole rows, or the row's fill values are spread over random dimensions.
    start = torch.zeros(1, dtype=torch.float64)
    log_chances_by_length = torch.cat([start, tails.fill_shares.flip(0).log().cumsum(0)])
    log_factorials = torch.cat([start, torch.arange(1, cloud.d + 1, dtype=torch.float64).log().cumsum(0)])
    log_chances_by_row = log_factorials[tails.repeats] - log_factorials[tails.repeats - tails.lengths]
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
    repeated = [rows[rows[:, -1] == rows[:, -2], -1] for rows, _ in examined.all_rows()]
    last_values = torch.cat(repeated)
    if len(last_values) == 0:
        return None
    fill = last_values.mode().values
    lengths, repeats, all_positions = [], [], []
    fill_counts = torch.zeros(examined.cloud.d, dtype=torch.float64)
    for rows, positions in examined.all_rows():
        is_fill = rows == fill
        differs = ~is_fill.flip(1)
        lengths.append(torch.where(differs.any(1), differs.int().argmax(1), rows.shape[1]))
        repeats.append(is_fill.sum(1))
        all_positions.append(positions.numpy())
        fill_counts += is_fill[~is_fill[:, -1]].sum(0)
    tails = torch.cat(lengths)
    whole_rows = int((tails == 0).sum())
    if whole_rows < FEWEST_WHOLE:
        return None
    # Whole rows never end in the fill, so they do not show how often the last dimension holds it by chance.
    shares = (fill_counts + 1) / (whole_rows + 2)
    shares[-1] = 1
    return _Tails(np.concatenate(all_positions), tails, torch.cat(repeats), shares)
