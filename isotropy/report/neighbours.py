"""What the nearest neighbors of a cloud's rows say. All share one search, among distinct rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isotropy.catalog import Similarity
from isotropy.cloud import NEIGHBOURS, Cloud
from isotropy.hubness import hubness
from isotropy.intrinsic import levina_bickel, twonn, twonn_mle
from isotropy.neighbours import Neighbours
from isotropy.report.finding import Finding, Measuring
from isotropy.score import Score

DISCARD = 0.1
NO_DIMENSION = (
    "Local dimension is undefined by dot product, which is no distance between rows. Choose cosine or Euclidean "
    "distance."
)


def _twonn(cloud: Cloud) -> Finding:
    fit = twonn(cloud.neighbours, DISCARD)
    points = {"log_mu": fit.log_mu.tolist(), "minus_log_survival": fit.minus_log_survival.tolist()}
    goodness = {"fit_distance": fit.distance, "fit_distance_by_chance": fit.by_chance}
    detail = {"discard": DISCARD, **points, "parts": goodness}
    return _dimension(cloud, lambda found: twonn(found, DISCARD).dimension, detail)


def _twonn_mle(cloud: Cloud) -> Finding:
    return _dimension(cloud, twonn_mle)


def _levina_bickel(cloud: Cloud) -> Finding:
    return _dimension(cloud, lambda found: levina_bickel(found, NEIGHBOURS), {"k": NEIGHBOURS})


def _dimension(cloud: Cloud, measure: Callable[[Neighbours], Score], detail: dict[str, Any] | None = None) -> Finding:
    near = cloud.neighbourhoods
    n = len(near.whole.indices)
    if cloud.similarity is Similarity.DOT:
        return Finding(Score.undefined(NO_DIMENSION), n)
    told = {**(detail or {}), "similarity": cloud.similarity.value}
    return Finding(near.score(measure), n, told, near.at_sizes(measure))


def _hubness(cloud: Cloud) -> Finding:
    found = hubness(cloud.neighbours, NEIGHBOURS)
    parts = {"robin_hood": found.robin_hood.value, "antihubs": found.antihubs.value, "greatest": found.greatest.value}
    hubs = [{"row": cloud.row_of(one.point), "occurrences": one.occurrences} for one in found.hubs]
    detail = {"k": NEIGHBOURS, "similarity": cloud.similarity.value, "parts": parts, "hubs": hubs}
    return Finding(found.skewness, len(cloud.neighbours.indices), detail)


MEASURES: dict[str, Measuring] = {
    "twonn": _twonn,
    "twonn_mle": _twonn_mle,
    "levina_bickel": _levina_bickel,
    "hubness": _hubness,
}
