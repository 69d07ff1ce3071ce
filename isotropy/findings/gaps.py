"""Values that stand out from the rest of a spectrum: a gap that no regular decay has."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SMALLEST = 1e-12
"""Part of the greatest value below which all values count as equal: rounding."""


class Gap(NamedTuple):
    """The gap that exceeds what follows it by most."""

    excess: float
    """In natural logarithms; minus infinity where there are too few values."""
    size: int
    """Values above the gap."""
    ratio: float
    """The smallest value above the gap over the greatest below it."""


NO_GAP = Gap(float("-inf"), 0, 1.0)


def greatest_gap(values: Tensor, most: int) -> Gap:
    """Return the gap below the k greatest values, 1 <= k <= ``most``, that exceeds the decay after it by most.

    The excess at k is log(v_k / v_(k+1)) - log(v_(k+1) / v_(2k+2)), with v in descending order. Where the values decay
    as a power of their rank, whatever the exponent, it is 0 at k = 1 and below 0 after; exponential decay is below 0.

    Args:
        values: [d], not below 0, in any order.
        most: values that may stand out.

    """
    v = values.double().sort(descending=True).values
    k = torch.arange(1, min(most, len(v) // 2 - 1) + 1)
    if len(k) == 0 or not v.isfinite().all() or float(v[0]) <= 0:
        return NO_GAP
    logs = v.clamp(min=float(v[0]) * SMALLEST).log()
    drop = logs[k - 1] - logs[k]
    excess = drop - (logs[k] - logs[2 * k + 1])
    best = int(excess.argmax())
    return Gap(float(excess[best]), best + 1, float(drop[best].exp()))
