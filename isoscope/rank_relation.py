"""Rank correlation of isotropy and score over embeddings, and a sentence about it."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from math import factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.core.formatting import number, plural
from isotropy.catalog import METRICS

MIN_EMBEDDINGS = 5  # With four, even a perfect order has p = 1/12
SIGNIFICANCE_LEVEL = 0.05
MAX_EXACT_EMBEDDINGS = 7  # With more, permutations are random
N_PERMUTATIONS = 9_999

Values = npt.NDArray[np.float64]


class ScoredEmbedding(NamedTuple):
    """An embedding with its IsoScore, None if undefined, and its score by a task."""

    name: str
    isoscore: float | None
    score: float
    series: str | None = None  # Shared by the layers of one model; None for an embedding that is no layer


class RankRelation(NamedTuple):
    """Spearman's rho with its two-sided p by permutation; both None if all IsoScores or all scores are equal."""

    embeddings: int
    rho: float | None
    # Also None for layers of one model. Their values depend on each other, so orders are not equally likely: for 5
    # to 25 layers that drift at random, a permutation test finds a relation in 15 to 51% of cases.
    p: float | None


@lru_cache(maxsize=256)
def correlate_ranks(points: tuple[tuple[float, float], ...]) -> RankRelation:
    """Return the rank correlation of pairs of isotropy and score; p uses all orders of few pairs, or random ones."""
    n = len(points)
    # Ties share their mean rank.
    centered_ranks = []
    for values in zip(*points, strict=True):
        _, positions, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
        ranks: Values = (np.cumsum(counts) - (counts - 1) / 2)[positions]
        centered_ranks.append(ranks - ranks.mean())
    x, y = centered_ranks
    norm = float(np.sqrt((x @ x) * (y @ y)))
    if norm == 0:
        return RankRelation(n, None, None)
    rho = float(x @ y) / norm
    is_exact = n <= MAX_EXACT_EMBEDDINGS
    if is_exact:
        orders = np.array(list(permutations(range(n))))
    else:
        orders = np.random.default_rng(0).permuted(np.tile(np.arange(n), (N_PERMUTATIONS, 1)), axis=1)
    n_extreme = int((np.abs(y[orders] @ x) >= abs(x @ y) - 1e-9).sum())  # 1e-9 allows for rounding
    return RankRelation(n, rho, n_extreme / factorial(n) if is_exact else (n_extreme + 1) / (N_PERMUTATIONS + 1))


def relation_of(embeddings: Sequence[ScoredEmbedding]) -> RankRelation | None:
    """Return the relation over embeddings of one task, without p if two are layers of one model; None for too few."""
    pairs = tuple((embedding.isoscore, embedding.score) for embedding in embeddings if embedding.isoscore is not None)
    if len(pairs) < MIN_EMBEDDINGS:
        return None
    relation = correlate_ranks(pairs)
    series = [embedding.series for embedding in embeddings if None not in (embedding.isoscore, embedding.series)]
    has_layers_of_one_model = len(set(series)) < len(series)
    return relation._replace(p=None) if has_layers_of_one_model else relation


def describe_relation(embeddings: Sequence[ScoredEmbedding], metric: str) -> str:
    """Describe the relation in sentences; for fewer than five embeddings, describe the most isotropic one."""
    title = METRICS[metric]
    relation = relation_of(embeddings)
    if relation is None:
        subject = _describe_most_isotropic(embeddings, title)
        return f"{subject} A rank correlation needs at least {MIN_EMBEDDINGS} embeddings."
    noun = f"these {relation.embeddings} embeddings as they are"
    if relation.rho is None:
        return f"IsoScore or {title} is the same for {noun}, so there is no rank correlation."
    if relation.p is None:
        return (
            f"Over {noun}, IsoScore and {title} have Spearman rho = {number(relation.rho, 2)}. "
            "Layers of one model depend on each other, so there is no p."
        )
    statistics = f"Spearman rho = {number(relation.rho, 2)}, permutation p = {number(relation.p, 2)}"
    scope = "p holds for models made apart, not for checkpoints or layers of one."
    if relation.p > SIGNIFICANCE_LEVEL:
        return f"No clear relation between isotropy and {title} over {noun}: {statistics}. {scope}"
    direction = "higher" if relation.rho > 0 else "lower"
    return f"Of {noun}, the more isotropic score {direction} on {title}: {statistics}. {scope}"


def _describe_most_isotropic(embeddings: Sequence[ScoredEmbedding], title: str) -> str:
    """Describe the most isotropic embedding in a sentence; count embeddings if fewer than two have an IsoScore."""
    measured = [embedding for embedding in embeddings if embedding.isoscore is not None]
    if len(measured) < 2:
        isoscore_note = "" if len(measured) == len(embeddings) else f", {len(measured)} with an IsoScore"
        return f"{plural(len(embeddings), 'embedding')} judged{isoscore_note}."
    most_isotropic = max(measured, key=lambda embedding: embedding.isoscore or 0.0)
    return f"{most_isotropic.name} is the most isotropic as it is and scores {most_isotropic.score:.3f} {title}."
