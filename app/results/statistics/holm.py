"""Holm's correction of several p-values at once (Holm 1979, "A simple sequentially rejective multiple test")."""

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """The adjusted p-values in the order given: below a level, the family-wise error stays below it, too."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return [float(one) for one in np.minimum(adjusted, 1)]
