"""Results of the catalog's measures for one cloud."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from isotropy import rank
from isotropy.activation import activation_profile
from isotropy.catalog import MEASURES as CATALOG
from isotropy.cloud import BARCODE_ROWS, NEIGHBORS, ZETA, Cloud
from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.cosine import CosineMoments, cosine_histogram
from isotropy.hubness import hubness
from isotropy.intrinsic import levina_bickel, twonn, twonn_mle
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label
from isotropy.neighbors import NearestNeighbors
from isotropy.prominence import gaussian_prominent_bars, prominent_bars
from isotropy.score import OUT_OF_RANGE, Score
from isotropy.topology import longest_bar, persistent_entropy
from isotropy.unbiased import isoscore_unbiased
from isotropy.uniformity import T

LISTED_DIMENSIONS = 10  # Number of listed rogue dimensions
HISTOGRAM_ROWS = 2000  # Maximum rows whose pairs are counted in the cosine histogram
DISCARD = 0.1  # Share of the largest ratios that the fit of TwoNN leaves out
NO_LABELS = Score.undefined("The rows have no labels: choose a column or an array that labels them.")


class MeasureResult(NamedTuple):
    """A score, the number of rows behind it, and details that one number cannot hold."""

    score: Score
    n: int  # Rows behind the score; fewer than the cloud's if it comes from a sample
    # Lists and settings; None if the score is undefined. A list-valued measure has its list in "values".
    detail: dict[str, Any] | None = None
    # Scores of the first 1,000, 2,000, ... rows, for measures that depend on the number of rows.
    at_sizes: Mapping[int, Score] = MappingProxyType({})

    @property
    def value(self) -> float | list[float | None] | None:
        """The list of a list-valued measure, else the value of the score; None if undefined."""
        values: list[float | None] | float | None = (self.detail or {}).get("values", self.score.value)
        return values


MeasureFunction = Callable[[Cloud], MeasureResult]


def measure(cloud: Cloud, slugs: Iterable[str] | None = None) -> dict[str, MeasureResult]:
    """Return the results of the measures of a cloud by slug, in catalog order; ``slugs`` selects some.

    Raises ValueError for a slug that the catalog lacks.
    """
    if isinstance(slugs, str):
        slugs = [slugs]
    selected_slugs = set(CATALOG if slugs is None else slugs)
    if unknown := selected_slugs - CATALOG.keys():
        raise ValueError(f"There is no measure {min(unknown)!r}: choose among {', '.join(CATALOG)}.")
    results = {}
    for slug in CATALOG:
        if slug in selected_slugs:
            result = MEASURES[slug](cloud)
            results[slug] = result if result.score.value is not None else result._replace(detail=None)
    return results


def _moment_measure(slug: str) -> MeasureFunction:
    return lambda cloud: MeasureResult(cloud.moment_scores[slug], cloud.n)


def _spectrum_measure(slug: str, **detail: object) -> MeasureFunction:
    return lambda cloud: MeasureResult(cloud.spectrum_scores[slug], cloud.n, detail or None)


def _spectrum_list(slug: str, cloud: Cloud) -> MeasureResult:
    """Return the spectrum scores named "slug k", from k = 1, as a list; the first is the result's score."""
    scores = [score for name, score in cloud.spectrum_scores.items() if name.startswith(f"{slug} ")]
    detail: dict[str, Any] = {"values": [score.value for score in scores]}
    if any(score.se is not None for score in scores):
        detail["se"] = [score.se for score in scores]
    return MeasureResult(scores[0], cloud.n, detail)


def _spectrum(cloud: Cloud) -> MeasureResult:
    if (reason := cloud.moment_scores["participation_ratio"].reason) is not None:
        return MeasureResult(Score.undefined(reason), cloud.n)
    values = (cloud.eigenvalues * cloud.unit * cloud.unit).tolist()
    return MeasureResult(cloud.spectrum_scores["spectrum"], cloud.n, {"eigenvalues": values})


def _mean_cosine(cloud: Cloud) -> MeasureResult:
    scores = cloud.cosine_blocks.scores(lambda part: {"mean": part.mean_cosine()}, cloud.n_independent)
    return MeasureResult(scores["mean"], cloud.cosines.n, {"zero_rows": cloud.cosines.zero_rows})


def _rogue_dimensions(cloud: Cloud) -> MeasureResult:
    rogue = cloud.cosines.rogue_dimensions()
    contributions = rogue.contributions.tolist()
    largest = rogue.contributions.argsort(descending=True)[:LISTED_DIMENSIONS].tolist()
    dimensions = [{"dimension": i, "value": contributions[i]} for i in largest]
    return MeasureResult(rogue.score, cloud.cosines.n, {"contributions": contributions, "dimensions": dimensions})


def _activation_profile(cloud: Cloud) -> MeasureResult:
    profile = activation_profile(cloud.moments)
    broken_rules = [[rule for rule, flags in profile.outliers.items() if flags[i]] for i in range(len(profile.mean))]
    outliers = [{"dimension": i, "rules": rules} for i, rules in enumerate(broken_rules) if rules]
    mean, std = profile.mean * cloud.unit, profile.std * cloud.unit
    if not (mean.isfinite().all() and std.isfinite().all()):
        return MeasureResult(Score.undefined(OUT_OF_RANGE), cloud.n)
    return MeasureResult(profile.score, cloud.n, {"mean": mean.tolist(), "std": std.tolist(), "outliers": outliers})


def _cosine_histogram(cloud: Cloud) -> MeasureResult:
    """Report the mean cosine of the counted pairs, and the histogram before and after subtracting the cloud's mean."""
    rows = cloud.pair_rows[cloud.pair_rows.any(dim=1)][:HISTOGRAM_ROWS]
    score = _mean_over_pairs(rows)
    if score.value is None:
        return MeasureResult(score, len(rows))
    histogram = cosine_histogram(rows)
    detail = {"edges": histogram.edges.tolist(), "counts": histogram.counts.tolist(), "rows": len(rows)}
    offsets = rows - cloud.moments.mean
    offsets = offsets[offsets.any(dim=1)]
    mean = _mean_over_pairs(offsets).value
    centered = None
    if mean is not None:  # some pair of rows differs from the mean
        centered = {"counts": cosine_histogram(offsets).counts.tolist(), "mean": mean, "rows": len(offsets)}
    return MeasureResult(score, len(rows), detail | {"centred": centered})


def _mean_over_pairs(rows: Tensor) -> Score:
    cosines = CosineMoments(rows.shape[1])
    cosines.update(rows)
    return cosines.mean_cosine()


def _twonn(cloud: Cloud) -> MeasureResult:
    fit = twonn(cloud.euclidean_pairs.neighbors, DISCARD)
    points = {"log_mu": fit.log_mu.tolist(), "minus_log_survival": fit.minus_log_survival.tolist()}
    goodness = {"fit_distance": fit.distance, "fit_distance_by_chance": fit.chance_distance}
    detail = {"discard": DISCARD, **points, "parts": goodness}
    return _local_dimension(cloud, lambda neighbors: twonn(neighbors, DISCARD).dimension, detail)


def _local_dimension(
    cloud: Cloud, estimate: Callable[[NearestNeighbors], Score], detail: Mapping[str, Any] = MappingProxyType({})
) -> MeasureResult:
    """Estimate from Euclidean neighbors, even if rows are compared by cosine: unit rows lose one dimension."""
    neighbors = cloud.block_neighbors
    n = len(neighbors.all_neighbors.indices)
    return MeasureResult(neighbors.score(estimate), n, dict(detail), neighbors.scores_by_size(estimate))


def _hubness(cloud: Cloud) -> MeasureResult:
    scores = hubness(cloud.neighbors, NEIGHBORS)
    parts = {name: getattr(scores, name).value for name in ("robin_hood", "antihubs", "greatest")}
    hubs = [{"row": cloud.row_of(hub.point), "occurrences": hub.occurrences} for hub in scores.hubs]
    detail = {"k": NEIGHBORS, "similarity": cloud.similarity.value, "parts": parts, "hubs": hubs}
    return MeasureResult(scores.skewness, len(cloud.neighbors.indices), detail)


def _bar_measure(score_bars: Callable[[Tensor], Score]) -> MeasureFunction:
    return lambda cloud: MeasureResult(score_bars(cloud.bars), len(cloud.sample[:BARCODE_ROWS]))


def _barcode(cloud: Cloud) -> MeasureResult:
    lengths = (cloud.bars * cloud.unit).tolist()
    longest = longest_bar(cloud.bars).times(cloud.unit)
    return MeasureResult(longest, len(cloud.sample[:BARCODE_ROWS]), {"lengths": lengths})


def _prominent_bars(cloud: Cloud) -> MeasureResult:
    n = len(cloud.sample[:BARCODE_ROWS])
    score = prominent_bars(cloud.bars)
    if score.value is None:
        return MeasureResult(score, n)
    return MeasureResult(score, n, {"parts": {"gaussian_of_the_same_size": gaussian_prominent_bars(n, cloud.d).value}})


def _label_measure(score_classes: Callable[[Tensor, Tensor], Score], cloud: Cloud) -> MeasureResult:
    if cloud.labels is None:
        return MeasureResult(NO_LABELS, 0)
    x, codes = cloud.labels.drop_unlabeled(cloud.pair_rows)
    return MeasureResult(score_classes(x, codes), len(x))


def _isoscore_by_label(cloud: Cloud) -> MeasureResult:
    """Report IsoScore within classes, with bias-corrected values, so that classes of unlike sizes can be compared."""
    if cloud.labels is None:
        return MeasureResult(NO_LABELS, 0)
    x, codes = cloud.labels.drop_unlabeled(cloud.sample)
    plain = score_by_label(x.double(), codes, isoscore)
    unbiased = score_by_label(x, codes, isoscore_unbiased)
    classes = [
        {
            "label": cloud.labels.names[entry.label],
            "n": entry.n,
            "value": entry.score.value,
            "unbiased": corrected.score.value,
            "reason": entry.score.reason,
        }
        for entry, corrected in zip(plain.classes, unbiased.classes, strict=True)
    ]
    named_classes = sum(bool(name) for name in cloud.labels.names)
    detail = {"classes_used": len(plain.scored_classes), "classes": named_classes, "by_label": classes}
    return MeasureResult(plain.score, sum(entry.n for entry in plain.scored_classes), detail)


MEASURES: dict[str, MeasureFunction] = {
    "isoscore_unbiased": _moment_measure("isoscore_unbiased"),
    "isoscore": _moment_measure("isoscore"),
    "isoscore_star": lambda cloud: MeasureResult(
        cloud.moment_scores["isoscore_star"], cloud.n, {"zeta": ZETA, "source": "identity"}
    ),
    "participation_ratio_unbiased": _moment_measure("participation_ratio_unbiased"),
    "participation_ratio": _moment_measure("participation_ratio"),
    "effective_rank": _spectrum_measure("effective_rank"),
    "effective_rank_lambda": _spectrum_measure("effective_rank_lambda"),
    "rankme": _spectrum_measure("rankme"),
    "stable_rank": _spectrum_measure("stable_rank"),
    "alpha_req": _spectrum_measure("alpha_req", window=rank.ALPHA_WINDOW),
    "explained_variance": partial(_spectrum_list, "explained_variance"),
    "spectrum": _spectrum,
    "mean_cosine": _mean_cosine,
    "rogue_dimensions": _rogue_dimensions,
    "mean_share": _moment_measure("mean_share"),
    "anisotropy_raw": partial(_spectrum_list, "anisotropy_raw"),
    "anisotropy_centred": partial(_spectrum_list, "anisotropy_centred"),
    "partition": lambda cloud: MeasureResult(cloud.partition.isotropy(), cloud.n),
    "partition_log": lambda cloud: MeasureResult(cloud.partition.log_isotropy(), cloud.n),
    "uniformity": lambda cloud: MeasureResult(
        cloud.euclidean_pairs.uniformity, int(cloud.pair_rows.any(dim=1).sum()), {"t": T}
    ),
    "activation_profile": _activation_profile,
    "cosine_histogram": _cosine_histogram,
    "twonn": _twonn,
    "twonn_mle": lambda cloud: _local_dimension(cloud, twonn_mle),
    "levina_bickel": lambda cloud: _local_dimension(
        cloud, lambda neighbors: levina_bickel(neighbors, NEIGHBORS), {"k": NEIGHBORS}
    ),
    "hubness": _hubness,
    "barcode": _barcode,
    "persistent_entropy": _bar_measure(persistent_entropy),
    "persistent_entropy_normalised": _bar_measure(partial(persistent_entropy, normalized=True)),
    "prominent_bars": _prominent_bars,
    "silhouette": partial(_label_measure, silhouette),
    "simplified_silhouette": partial(_label_measure, simplified_silhouette),
    "isoscore_by_label": _isoscore_by_label,
}
