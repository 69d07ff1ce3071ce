"""Whether embeddings that are more isotropic score higher: a rank correlation over embeddings, and a sentence of it."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from math import factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.core.formatting import number, plural
from isotropy.catalog import METRICS

FEWEST = 5
"""Embeddings below which a rank correlation says nothing: of four even the clearest order has p = 1/12."""
LEVEL = 0.05
MOST_EXACT = 7
DRAWN = 9_999

Values = npt.NDArray[np.float64]


class Placed(NamedTuple):
    """An embedding as it is: what it is called, its IsoScore if that is defined, and what it scores."""

    name: str
    isoscore: float | None
    score: float
    series: str | None = None
    """What layers of one model have in common; None where that is not known."""


class RankRelation(NamedTuple):
    """Spearman's correlation with its two-sided p by permutation; both None where either side is constant."""

    embeddings: int
    rho: float | None
    p: float | None
    """None too where layers of one model are among them: their values follow each other, so not every order is as
    likely, and of 5 to 25 layers that drift at random a permutation finds a relation in 15 to 51%."""


@lru_cache(maxsize=256)
def rank_relation(points: tuple[tuple[float, float], ...]) -> RankRelation:
    """Return the rank correlation of isotropy and score over embeddings.

    All orders are looked at up to seven embeddings, 9,999 drawn ones above.
    """
    n = len(points)
    x, y = (_ranks(np.array(values)) for values in zip(*points, strict=True))
    size = float(np.sqrt((x @ x) * (y @ y)))
    if size == 0:
        return RankRelation(n, None, None)
    rho = float(x @ y) / size
    if n <= MOST_EXACT:
        orders = np.array(list(permutations(range(n))))
        reached = int((np.abs(y[orders] @ x) >= abs(x @ y) - 1e-9).sum())
        return RankRelation(n, rho, reached / factorial(n))
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(n), (DRAWN, 1)), axis=1)
    reached = int((np.abs(y[orders] @ x) >= abs(x @ y) - 1e-9).sum())
    return RankRelation(n, rho, (reached + 1) / (DRAWN + 1))


def relation_of(embeddings: Sequence[Placed]) -> RankRelation | None:
    """Return the relation over embeddings judged by one task; None of fewer than five."""
    drawn = [(one, one.isoscore) for one in embeddings if one.isoscore is not None]
    if len(drawn) < FEWEST:
        return None
    found = rank_relation(tuple((isoscore, one.score) for one, isoscore in drawn))
    layers = Counter(one.series for one, _ in drawn if one.series is not None)
    return found._replace(p=None) if max(layers.values(), default=0) > 1 else found


def statement(embeddings: Sequence[Placed], metric: str) -> str:
    """Return what embeddings show: the relation, or the two ends where there are too few for one."""
    title = METRICS[metric]
    found = relation_of(embeddings)
    if found is None:
        return f"{_ends(embeddings, title)} A rank correlation needs at least {FEWEST} embeddings."
    which = f"these {found.embeddings} embeddings as they are"
    if found.rho is None:
        return f"IsoScore or {title} is the same for {which}, so there is no rank correlation."
    if found.p is None:
        return (
            f"Over {which}, IsoScore and {title} have Spearman rho = {number(found.rho, 2)}. "
            "Layers of one model depend on each other, so there is no p."
        )
    told = f"Spearman rho = {number(found.rho, 2)}, permutation p = {number(found.p, 2)}"
    scope = "p holds for models made apart, not for checkpoints or layers of one."
    if found.p > LEVEL:
        return f"No clear relation between isotropy and {title} over {which}: {told}. {scope}"
    more = "higher" if found.rho > 0 else "lower"
    return f"Of {which}, the more isotropic score {more} on {title}: {told}. {scope}"


def _ends(embeddings: Sequence[Placed], title: str) -> str:
    """Return which embedding is the most isotropic, and which scores best; these may be one."""
    known = [one for one in embeddings if one.isoscore is not None]
    if len(known) < 2:
        undefined = "" if len(known) == len(embeddings) else f", {len(known)} with an IsoScore"
        return f"{plural(len(embeddings), 'embedding')} judged{undefined}."
    most = max(known, key=lambda one: one.isoscore or 0.0)
    best = max(embeddings, key=lambda one: one.score)
    told = f"{most.name} is the most isotropic as it is and scores {most.score:.3f} {title}"
    if best.score <= most.score:
        return f"{told}, the highest here."
    return f"{told}. {best.name} scores highest: {best.score:.3f}."


def _ranks(values: Values) -> Values:
    """Return ranks less their mean; equal values share theirs."""
    _, place, often = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Values = (np.cumsum(often) - (often - 1) / 2)[place]
    centered: Values = ranks - ranks.mean()
    return centered
