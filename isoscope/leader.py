"""Name the embedding that scores highest by a task, if its lead over each other one is clear."""

from collections.abc import Sequence
from math import hypot
from typing import NamedTuple

from isoscope.core.formatting import plural
from isotropy.catalog import METRICS


class RankedEmbedding(NamedTuple):
    """An embedding with the score that ranks it, and its score on held-out rows with a 95% interval."""

    name: str
    choose_score: float
    value: float
    low: float
    high: float

    def leads(self, rival: "RankedEmbedding") -> bool:
        """Return whether the interval of the difference lies above 0 (MOVER: Zou & Donner 2008).

        Scores of the same rows are correlated, which would narrow the interval, but are treated as independent.
        """
        return self.value - rival.value > hypot(self.value - self.low, rival.high - rival.value)


def describe_leader(embeddings: Sequence[RankedEmbedding], metric: str) -> str:
    """Name the embedding that ranks first; call it best only if it clearly leads each other one on held-out rows."""
    first, *followers = sorted(embeddings, key=lambda embedding: -embedding.choose_score)
    score = f"{METRICS[metric]} {first.value:.3f} ({first.low:.3f} to {first.high:.3f})"
    n_rivals = sum(not first.leads(follower) for follower in followers)
    if n_rivals == 0:
        return f"{first.name} is best: {score}, clearly more than {plural(len(followers), 'other')}."
    return f"None is clearly best. {first.name} ranks first with {score}; {plural(n_rivals, 'other')} may be as good."
