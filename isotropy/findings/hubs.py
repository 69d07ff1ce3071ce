"""Hubs: rows that are among the nearest neighbors of far too many others, by angle or by distance.

Of 1,000 rows the 10 nearest among all are found, both about the mean, and how often each row is among them is counted.
High-dimensional clouds have hubs by nature (Radovanović, Nanopoulos & Ivanović 2010): the limit contains them. By angle
it is that of healthy clouds with as many rows and effective dimensions. By distance short rows of every real cloud are
hubs too; so there a hub is also far nearer to the center than the rest of the rows.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy.findings.examined import FEWEST_DIMENSIONS, Defect, Examined
from isotropy.findings.finding import judge, percent, share_kept
from isotropy.findings.limits import limit
from isotropy.findings.nearest import NEAREST, Similarity

INWARD = 6.0
"""How many times farther below the median than the 10% point the distance of a hub from the center is, by logarithm."""

SPECTRA = 1.5
"""By angle a hub has so many times the limit: spectra of one effective dimension differ by less."""

MOST = 0.05
"""Share of the rows beyond which they are no hubs but a part of the cloud."""


def hubs(examined: Examined) -> Defect | None:
    """Return the rows that are among the nearest of more rows than any row of a healthy cloud."""
    if not examined.is_spread or examined.ratio < FEWEST_DIMENSIONS:
        return None
    found = [_hubs(examined, "cosine"), _hubs(examined, "euclidean")]
    rows, held, greatest, how = max(found, key=lambda one: one[1])
    if len(rows) == 0 or len(rows) > max(1, MOST * examined.cloud.n):
        return None
    effect, severity = judge([share_kept(1 - held)], examined.cloud.d)
    count = len(rows)
    return Defect(
        slug="hubs",
        severity=severity,
        title=f"{'1 row is' if count == 1 else f'{count:,} rows are'} a neighbor of {percent(greatest)} of all rows",
        evidence=(
            f"{'It takes' if count == 1 else 'They take'} {percent(held)} of the places among the {NEAREST} nearest "
            f"neighbors by {how}. In a healthy cloud of this size no row is a neighbor of that many."
        ),
        effect=effect,
        rows=rows,
        rest=examined.without_rows(rows),
    )


def _hubs(examined: Examined, similarity: Similarity) -> tuple[np.ndarray, float, float, str]:
    """Return the hubs by place, the share of all places that they take, and that of rows that the first is near to."""
    rows, shares = examined.nearest(similarity)
    n, ratio = examined.cloud.n, examined.ratio
    if similarity == "cosine":
        own = shares > SPECTRA * limit("hub_cosine", n, ratio)
    else:
        own = shares > limit("hub_euclidean", n, ratio)
        if own.any():
            own[own.clone()] = _inward(examined, rows[own])
    held = float(shares[own].sum()) / NEAREST
    how = "angle about the mean" if similarity == "cosine" else "distance"
    return np.sort(rows[own].numpy()), held, float(shares[own].max()) if own.any() else 0.0, how


def _inward(examined: Examined, places: Tensor) -> Tensor:
    """Return which rows are far nearer to the mean than most."""
    own = []
    mean = examined.cloud.moments.mean
    for rows, at in examined.references():
        kept = torch.isin(at, places)
        if kept.any():
            own.append((at[kept], torch.linalg.vector_norm(rows[kept].double() - mean, dim=1)))
    logs = torch.linalg.vector_norm(examined.sample - mean, dim=1).clamp(min=1e-300).log()
    low, middle = logs.quantile(torch.tensor([0.1, 0.5], dtype=torch.float64)).tolist()
    at, lengths = torch.cat([one for one, _ in own]), torch.cat([one for _, one in own])
    inward = middle - lengths.clamp(min=1e-300).log() > INWARD * (middle - low)
    return torch.isin(places, at[inward])
