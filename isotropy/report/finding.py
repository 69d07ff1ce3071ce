"""A measure of one cloud, as the report holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from isotropy.cloud import Cloud
from isotropy.score import Score


class MeasureResult(NamedTuple):
    """A score, the rows behind it, and what one number cannot say."""

    score: Score
    n: int
    """Rows behind the score: fewer than the cloud's where it was made from a sample."""
    detail: dict[str, Any] | None = None
    """Lists and settings; nothing where the score is undefined. A measure that is a list has it in "values"."""
    at_sizes: Mapping[int, Score] = MappingProxyType({})
    """Scores of the first 1,000, 2,000, ... of the rows, where a measure depends on their number."""

    @property
    def value(self) -> float | list[float | None] | None:
        """The list of a measure that is a list, else its one value; None where undefined."""
        values: list[float | None] | float | None = (self.detail or {}).get("values", self.score.value)
        return values


MeasureFunction = Callable[[Cloud], MeasureResult]


def from_scores(scores: Sequence[Score], n: int) -> MeasureResult:
    """Return the finding of a measure that is a list, headed by the first."""
    detail: dict[str, Any] = {"values": [score.value for score in scores]}
    if any(score.se is not None for score in scores):
        detail["se"] = [score.se for score in scores]
    return MeasureResult(scores[0], n, detail)
