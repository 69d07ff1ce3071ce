"""Hubs: rows that are among the nearest neighbors of far too many others, by angle or by distance.

Of 1,000 rows the 10 nearest among all are found, both about the mean, and how often each row is among them is counted.
High-dimensional clouds have hubs by nature (Radovanović, Nanopoulos & Ivanović 2010): the limit contains them. By angle
it is that of healthy clouds with as many rows and effective dimensions. By distance short rows of every real cloud are
hubs too; so there a hub is also far nearer to the center than the rest of the rows. Such rows share the places among
the neighbors of all others: 60 of them take one in six each. So they are counted together, as rows that have any of
them among their neighbors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.findings.examined import FEWEST_DIMENSIONS, NO_ROWS, Defect, Examined
from isotropy.findings.finding import judge, percent, share_kept
from isotropy.findings.limits import limit
from isotropy.findings.nearest import NEAREST, Nearest

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
    found = max(_by_angle(examined), _by_distance(examined), key=lambda one: one.held)
    count = len(found.rows)
    if count == 0 or count > max(1, MOST * examined.cloud.n):
        return None
    effect, severity = judge([share_kept(1 - found.held)], examined.cloud.d)
    return Defect(
        slug="hubs",
        severity=severity,
        title=f"{_neighbors(count)} of {percent(found.reached)} of all rows",
        evidence=(
            f"{'It takes' if count == 1 else 'They take'} {percent(found.held)} of the places among the {NEAREST} "
            f"nearest neighbors by {found.similarity}. In a healthy cloud of this size no row is a neighbor of so many."
        ),
        effect=effect,
        rows=found.rows,
        rest=examined.without_rows(found.rows),
    )


class _Hubs(NamedTuple):
    """Rows that are hubs by one similarity."""

    rows: NDArray[np.int64]
    held: float
    """The share of all places among neighbors that they take."""
    reached: float
    """The share of rows that one of them, or any, is a neighbor of."""
    similarity: str


def _by_angle(examined: Examined) -> _Hubs:
    found = examined.nearest("cosine")
    rows, shares = found.shares()
    own = shares > SPECTRA * limit("hub_cosine", examined.cloud.n, examined.ratio)
    return _told(found, rows[own], "angle about the mean")


def _by_distance(examined: Examined) -> _Hubs:
    inward = _inward(examined)
    # Most clouds have none, and then nothing is searched.
    if len(inward) == 0:
        return _Hubs(NO_ROWS, 0.0, 0.0, "distance")
    found = examined.nearest("euclidean")
    together = _told(found, inward[torch.isin(inward, found.places)], "distance")
    beyond = together.reached > limit("hub_euclidean", examined.cloud.n, examined.ratio)
    return together if beyond else together._replace(rows=NO_ROWS, held=0.0)


def _told(found: Nearest, rows: Tensor, similarity: str) -> _Hubs:
    among = torch.isin(found.places, rows).double()
    return _Hubs(np.sort(rows.numpy()), float(among.mean()), float(among.amax(1).mean()), similarity)


def _inward(examined: Examined) -> Tensor:
    """Return the places of rows that are far nearer to the mean than most."""
    mean = examined.cloud.moments.mean
    logs = torch.linalg.vector_norm(examined.sample - mean, dim=1).clamp(min=1e-300).log()
    low, middle = logs.quantile(torch.tensor([0.1, 0.5], dtype=torch.float64)).tolist()
    nearest = float(np.exp(middle - INWARD * (middle - low)))
    own = [at[torch.linalg.vector_norm(rows.double() - mean, dim=1) < nearest] for rows, at in examined.references()]
    return torch.cat(own)


def _neighbors(count: int) -> str:
    return "1 row is a neighbor" if count == 1 else f"{count:,} rows are neighbors"
