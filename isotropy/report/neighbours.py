"""What the nearest neighbors of a cloud's rows say. All share one search, among distinct rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isotropy.catalog import Similarity
from isotropy.cloud import NEIGHBOURS, Cloud
from isotropy.hubness import hubness
from isotropy.intrinsic import levina_bickel, twonn, twonn_mle
from isotropy.neighbours import NearestNeighbours
from isotropy.report.finding import MeasureFunction, MeasureResult
from isotropy.score import Score

DISCARD = 0.1
NO_DIMENSION = (
    "Local dimension is undefined by dot product, which is no distance between rows. Choose cosine or Euclidean "
    "distance."
)


def _twonn(cloud: Cloud) -> MeasureResult:
    fit = twonn(cloud.neighbours, DISCARD)
    points = {"log_mu": fit.log_mu.tolist(), "minus_log_survival": fit.minus_log_survival.tolist()}
    goodness = {"fit_distance": fit.distance, "fit_distance_by_chance": fit.by_chance}
    detail = {"discard": DISCARD, **points, "parts": goodness}
    return _dimension(cloud, lambda neighbours: twonn(neighbours, DISCARD).dimension, detail)


def _twonn_mle(cloud: Cloud) -> MeasureResult:
    return _dimension(cloud, twonn_mle)


def _levina_bickel(cloud: Cloud) -> MeasureResult:
    return _dimension(cloud, lambda neighbours: levina_bickel(neighbours, NEIGHBOURS), {"k": NEIGHBOURS})


def _dimension(
    cloud: Cloud, measure: Callable[[NearestNeighbours], Score], detail: dict[str, Any] | None = None
) -> MeasureResult:
    near = cloud.neighbourhoods
    n = len(near.all_neighbours.indices)
    if cloud.similarity is Similarity.DOT:
        return MeasureResult(Score.undefined(NO_DIMENSION), n)
    settings = {**(detail or {}), "similarity": cloud.similarity.value}
    return MeasureResult(near.score(measure), n, settings, near.at_sizes(measure))


def _hubness(cloud: Cloud) -> MeasureResult:
    scores = hubness(cloud.neighbours, NEIGHBOURS)
    parts = {
        "robin_hood": scores.robin_hood.value,
        "antihubs": scores.antihubs.value,
        "greatest": scores.greatest.value,
    }
    hubs = [{"row": cloud.row_of(hub.point), "occurrences": hub.occurrences} for hub in scores.hubs]
    detail = {"k": NEIGHBOURS, "similarity": cloud.similarity.value, "parts": parts, "hubs": hubs}
    return MeasureResult(scores.skewness, len(cloud.neighbours.indices), detail)


MEASURES: dict[str, MeasureFunction] = {
    "twonn": _twonn,
    "twonn_mle": _twonn_mle,
    "levina_bickel": _levina_bickel,
    "hubness": _hubness,
}
