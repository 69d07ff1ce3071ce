"""Norms that differ so much that products and angles have different neighbors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy.findings.examined import FEWEST_DIMENSIONS, Defect, Examined
from isotropy.findings.finding import judge
from isotropy.findings.limits import limit

DECILES = torch.tensor([0.1, 0.9], dtype=torch.float64)


def unequal_norms(examined: Examined) -> Defect | None:
    """Return the rows whose norm is far from the median, where norms differ more than in a heavy-tailed cloud."""
    if not examined.is_spread or not has_unequal_norms(examined):
        return None
    spread, healthy = norm_spread(examined.sample), _limit(examined)
    middle = float(_norms(examined.sample).log().median())
    found = []
    for rows, places in examined.references():
        far = (torch.linalg.vector_norm(rows.double(), dim=1).log() - middle).abs() > healthy
        found.append(places[far].numpy())
    effect, severity = judge([examined.kept_by(examined.sample, "dot")], examined.cloud.d)
    return Defect(
        slug="unequal_norms",
        severity=severity,
        title=f"Norms of rows differ {np.exp(spread):.3g} times",
        evidence=(
            f"The 90% point of the norms is {np.exp(spread):.3g} times the 10% point. In a heavy-tailed cloud "
            f"(Student's t, 5 degrees of freedom) it is at most {np.exp(healthy):.2g} times."
        ),
        effect=effect,
        rows=np.sort(np.concatenate(found)),
    )


def has_unequal_norms(examined: Examined) -> bool:
    """Return whether norms differ more than in a heavy-tailed cloud."""
    return examined.ratio >= FEWEST_DIMENSIONS and norm_spread(examined.sample) > _limit(examined)


def norm_spread(x: Tensor) -> float:
    """Return the logarithm of the 90% over the 10% point of the norms of points [n, d]; rows of zeros are left out."""
    norms = _norms(x)
    if len(norms) < 2:
        return 0.0
    low, high = norms.log().quantile(DECILES).tolist()
    return float(high - low)


def _norms(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x.double(), dim=1)
    return norms[norms > 0]


def _limit(examined: Examined) -> float:
    return limit("norm_spread_t5", len(examined.sample), examined.ratio)
