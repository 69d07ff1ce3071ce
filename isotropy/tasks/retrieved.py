"""Query-to-corpus hubness: how unequally often rows of a corpus are found by queries."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.hubness import greatest_hubs
from isotropy.tasks.search import Indices


class FoundRow(NamedTuple):
    """A row of the corpus that many queries find."""

    id: str
    queries: int
    """That have it among what they find."""


class Retrieved(NamedTuple):
    """How the places among what queries find are shared by the rows of a corpus."""

    k: int
    """Rows that each query finds."""
    queries: int
    skewness: float | None
    """Third standardized moment of the rows' counts (Radovanović et al. 2010); None if all counts are equal."""
    never: float
    """Share of the rows that no query finds; with few queries most, whatever the vectors."""
    hubs: tuple[FoundRow, ...]
    """The rows that are found most often, the first first."""

    def document(self) -> dict[str, Any]:
        """Return what JSON holds of it."""
        return {**self._asdict(), "hubs": [one._asdict() for one in self.hubs]}


def retrieved(found: Indices, ids: Sequence[str]) -> Retrieved:
    """Return the hubness of a corpus whose rows are called ``ids``, [n], from what queries find, int64 [m, k]."""
    counts = np.bincount(found.ravel(), minlength=len(ids))
    excess = counts - counts.mean()
    variance = float(np.square(excess).mean())
    hubs = greatest_hubs(torch.from_numpy(counts))
    return Retrieved(
        k=found.shape[1],
        queries=len(found),
        skewness=float((excess**3).mean()) / variance**1.5 if variance else None,
        never=float((counts == 0).mean()),
        hubs=tuple(FoundRow(ids[one.point], one.occurrences) for one in hubs),
    )
