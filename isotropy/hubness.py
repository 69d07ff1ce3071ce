"""Hubness: how unequally often the points are among the nearest neighbours of others."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from isotropy.neighbours import Neighbours
from isotropy.score import Score


@dataclass(frozen=True)
class Hubness:
    """How the k n places among nearest neighbours are shared by n points; without hubs each has k of them."""

    skewness: Score
    """Third standardised moment of the counts, in (-inf, inf), 0 if they are symmetric (Radovanović et al. 2010)."""
    robin_hood: Score
    """Share of all places that would have to change hands for all to have k, in [0, 1) (Feldbauer et al. 2018)."""
    antihubs: Score
    """Share of the points that are nobody's neighbour, in [0, 1)."""
    greatest: Score
    """Places of the greatest hub, from k to n - 1."""
    occurrences: Tensor
    """[n] int64, how often each point is one of the k nearest of another."""


def hubness(neighbours: Neighbours, k: int = 10) -> Hubness:
    """Return the hubness of n points from their k nearest neighbours.

    Undefined for fewer than k + 2 points, of which each would be a neighbour of all; the skewness alone if all points
    have the same count.

    Raises:
        ValueError: fewer than k neighbours were searched although there are more points, or k is below 1.

    """
    n = len(neighbours.indices)
    if n < k + 2:
        undefined = Score.undefined(f"Hubness with k = {k} needs at least {k + 2} points; there are {n}.")
        empty = neighbours.indices.new_empty(0)
        return Hubness(undefined, undefined, undefined, undefined, empty)
    occurrences = neighbours.first(k).indices.flatten().bincount(minlength=n)
    excess = occurrences.double() - k
    variance = float(excess.square().mean())
    return Hubness(
        skewness=Score(float(excess.pow(3).mean()) / variance**1.5)
        if variance
        else Score.undefined(f"The skewness is undefined: every point is a neighbour of exactly {k} others."),
        robin_hood=Score(float(excess.abs().sum()) / (2 * k * n)),
        antihubs=Score(float((occurrences == 0).double().mean())),
        greatest=Score(float(occurrences.max())),
        occurrences=occurrences,
    )
