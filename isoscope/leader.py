"""Which of several embeddings scores highest by one task, if its lead over each other is clear."""

from collections.abc import Sequence
from math import hypot
from typing import NamedTuple

from isoscope.core.formatting import plural
from isotropy.catalog import METRICS


class RankedEmbedding(NamedTuple):
    """An embedding with the score that ranks it, and its score on held-out rows with a 95% interval."""

    name: str
    choose: float
    value: float
    low: float
    high: float

    def leads(self, second: "RankedEmbedding") -> bool:
        """Return whether the interval of the difference lies above 0 (MOVER: Zou & Donner 2008).

        Scores of the same rows are correlated, which narrows the interval; it is taken as if they were not.
        """
        return self.value - second.value > hypot(self.value - self.low, second.high - second.value)


def describe_leader(embeddings: Sequence[RankedEmbedding], metric: str) -> str:
    """Name the embedding that ranks first; the best only if its lead over each other is clear on held-out rows."""
    first, *followers = sorted(embeddings, key=lambda embedding: -embedding.choose)
    score = f"{METRICS[metric]} {first.value:.3f} ({first.low:.3f} to {first.high:.3f})"
    rivals = sum(not first.leads(second) for second in followers)
    if rivals == 0:
        return f"{first.name} is best: {score}, clearly more than {plural(len(followers), 'other')}."
    return f"None is clearly best. {first.name} ranks first with {score}; {plural(rivals, 'other')} may be as good."
