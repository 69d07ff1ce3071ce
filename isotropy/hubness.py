"""Hubness: how unequally often the points are among the nearest neighbors of others."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from isotropy.neighbors import NearestNeighbors
from isotropy.products import unit_roundoff
from isotropy.score import Score, there_are

MAX_TIED_SHARE = 0.01  # Maximum share of points with a tie; in simulations this share moved the skewness by 5%
MAX_LISTED_HUBS = 10  # Maximum number of listed hubs


class HubPoint(NamedTuple):
    """A point and how often it is a nearest neighbor."""

    point: int  # Row of the cloud that was searched
    occurrences: int  # Points that have it among their k nearest, N_k


@dataclass(frozen=True)
class Hubness:
    """How the k n neighbor slots, k of each of n points, are distributed over the points; without hubs each fills k."""

    # Third standardized moment of the counts, in (-inf, inf), 0 if they are symmetric (Radovanović et al. 2010).
    skewness: Score
    # Share of neighbor slots to reassign so that every point has k, in [0, 1) (Feldbauer et al. 2018).
    robin_hood: Score
    antihubs: Score  # Share of the points that are nobody's neighbor, in [0, 1)
    greatest: Score  # Neighbor slots of the largest hub, from k to n - 1
    # Largest first, at most `MAX_LISTED_HUBS`, ties by row; empty if the counts are undefined.
    hubs: tuple[HubPoint, ...] = ()


def hubness(neighbors: NearestNeighbors, k: int = 10) -> Hubness:
    """Return the hubness of n points from at least k + 1 nearest neighbors of each.

    Undefined for fewer than k + 2 points, and where more than ``MAX_TIED_SHARE`` of the points have a tie for the k-th
    neighbor, which row order would decide; the skewness also if all counts are equal. Raises ValueError if too few
    neighbors were searched.
    """
    n = len(neighbors.indices)
    undefined = None
    if n < k + 2:
        undefined = Score.undefined(f"Hubness with k = {k} needs at least {k + 2} points; {there_are(n)}.")
    else:
        nearest, one_more = neighbors.take_nearest(k), neighbors.take_nearest(k + 1)
        kth_distances, next_distances = one_more.distances[:, -2:].unbind(1)
        # Treat half precision as exact: its rounding swaps a few neighbors but makes no hubs.
        error = one_more.distance_error(min(one_more.roundoff, unit_roundoff(torch.float32)))[:, -2]
        if (share := float((next_distances - kth_distances <= error).double().mean())) > MAX_TIED_SHARE:
            undefined = Score.undefined(
                f"Hubness is undefined: {share:.0%} of the points have a tie for their {k}-th nearest neighbor, "
                "which the order of the rows or rounding would decide."
            )
    if undefined is not None:
        return Hubness(undefined, undefined, undefined, undefined)
    occurrences = nearest.indices.flatten().bincount(minlength=n)
    excess = occurrences.double() - k
    variance = float(excess.square().mean())
    return Hubness(
        skewness=Score(float(excess.pow(3).mean()) / variance**1.5)
        if variance
        else Score.undefined(f"The skewness is undefined: every point is a neighbor of exactly {k} others."),
        robin_hood=Score(float(excess.abs().sum()) / (2 * k * n)),
        antihubs=Score(float((occurrences == 0).double().mean())),
        greatest=Score(float(occurrences.max())),
        hubs=find_largest_hubs(occurrences),
    )


def find_largest_hubs(occurrences: Tensor, max_hubs: int = MAX_LISTED_HUBS) -> tuple[HubPoint, ...]:
    """Return at most ``max_hubs`` points with the largest counts ``occurrences``, int64 [n], excluding zeros."""
    counts, points = occurrences.sort(descending=True, stable=True)
    pairs = zip(points[:max_hubs].tolist(), counts[:max_hubs].tolist(), strict=True)
    return tuple(HubPoint(point, count) for point, count in pairs if count)
