"""Values cut off at the ends of their range, as int8 does where the scale is too small."""

import numpy as np
import torch
from scipy.special import bdtrc, ndtri
from torch import Tensor

from isotropy.findings.dimensions import format_dimensions
from isotropy.findings.finding import Defect, ExaminedCloud, judge, percent
from isotropy.findings.spread import LEVEL

# Minimum share of a dimension's values at an end that is cut off: careful quantization clips 0.1%.
MIN_CUT_SHARE = 0.005
# Maximum ratio of an end's frequency to those of the next values in healthy clouds, where most frequencies rise inward.
MAX_FREQUENCY_RATIO = 2.0
NEXT_VALUES = 10
FEWEST_VALUES = 64  # Minimum distinct values of a dimension: with fewer it is a code of few bits, or a count


def saturated_dimensions(examined: ExaminedCloud) -> Defect | None:
    """Find dimensions whose largest or smallest value is far more frequent than the next, unless it is 0."""
    cloud = examined.cloud
    if not examined.has_spread:
        return None
    x = examined.sample
    numbers = cloud.dealing.group_numbers
    positions = cloud.rows[: len(x)].numpy()
    # Copies of a row repeat its extreme values too.
    distinct = torch.from_numpy(np.unique(positions if numbers is None else numbers[positions], return_index=True)[1])
    is_cut = torch.zeros_like(x, dtype=torch.bool)
    restored = x.clone()
    for sign in (1, -1):
        at_end = sign * x == (end := (sign * x).amax(0))
        # Number the values of each dimension from the end inward.
        descending = (sign * x[distinct]).sort(dim=0, descending=True).values
        levels = (descending[1:] < descending[:-1]).cumsum(0)
        at_end_count, next_count = 1 + (levels == 0).sum(0), ((levels > 0) & (levels <= NEXT_VALUES)).sum(0)
        candidate_count = (at_end_count + next_count).numpy()
        # Compute the probability that at least this many of the outermost values lie at the end.
        chance = torch.from_numpy(
            bdtrc(
                at_end_count.numpy() - 1.0, candidate_count, MAX_FREQUENCY_RATIO / (MAX_FREQUENCY_RATIO + NEXT_VALUES)
            )
        )
        cut_off = (levels[-1] >= FEWEST_VALUES) & (end != 0) & (chance <= LEVEL / (2 * cloud.d))
        at_end &= cut_off & (at_end_count >= MIN_CUT_SHARE * len(distinct))
        is_cut |= at_end
        restored += sign * at_end * _mean_excess(at_end.double().mean(0)) * x.std(0)
    is_saturated = is_cut.any(0)
    count = int(is_saturated.sum())
    if count == 0:
        return None
    effect, severity = judge([examined.neighbors_kept(restored)], cloud.d, affected_share=float(is_cut.double().mean()))
    share = percent(float(is_cut[:, is_saturated].double().mean()))
    return Defect(
        slug="saturated_dimensions",
        severity=severity,
        title=f"{format_dimensions(count)} {'is' if count == 1 else 'are'} cut off at the end of the range",
        evidence=(
            f"In {count:,} of {cloud.d:,} dimensions {share} of the values are exactly the largest or the smallest. "
            "The next value is far less frequent. The effect compares with values that continue like a normal tail."
        ),
        effect=effect,
        dimensions=examined.dimensions[is_saturated.numpy()],
    )


def _mean_excess(share: Tensor) -> Tensor:
    """Return how far beyond its upper ``share`` a standard normal variable lies on average; 0 for no share."""
    tail = share.clamp(1e-12, 0.5)
    z = torch.from_numpy(ndtri(1 - tail.numpy()))
    density = (-z.square() / 2).exp() / (2 * torch.pi) ** 0.5
    return torch.where(share > 0, density / tail - z, 0.0)
