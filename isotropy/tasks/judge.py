"""Judge variants of vectors by a task: fit on one part of the ground truth, choose on another, report on the third."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.catalog import Similarity
from isotropy.postprocess.components import principal_components
from isotropy.postprocess.fitted import FittedMap
from isotropy.tasks.bootstrap import Interval, Numbers, intervals
from isotropy.tasks.decision import BASELINE, Decision, VariantScores, choose_variants
from isotropy.tasks.gains import Gain, gains
from isotropy.tasks.maps import Map, apply_fitted, dimension_matrix, fit_map, fit_variant, reduce_dimensions
from isotropy.tasks.parts import Codes, TaskPart, split
from isotropy.tasks.search import Floats, Indices, RetrievalCounts, prepare, require_searchable
from isotropy.tasks.storage import StoredSpace, VectorStorage
from isotropy.tasks.truth import Truth
from isotropy.tasks.variants import Variant, VariantSetting, default_variants
from isotropy.unbiased import isoscore_unbiased

SCORED_ROWS = 20_000  # Maximum rows from which the unbiased IsoScore is estimated
TOLERANCE = 0.01


class ScoredVariant(NamedTuple):
    """A measured variant, before its score on the report part is known."""

    variant: Variant
    bytes: int
    isoscore: float | None
    choose_score: float  # On the choose part


Progress = Callable[[ScoredVariant], object]


@dataclass(frozen=True, eq=False)
class JudgingTask:
    """Vectors and the ground truth that judges them; raises ValueError if they do not fit or groups are too few."""

    corpus: NDArray[Any]  # [n, d], finite, float32 or float64
    truth: Truth
    similarity: Similarity = Similarity.COSINE
    seed: int = 0
    metric: str | None = None  # One of the truth's metrics; the first if None

    def __post_init__(self) -> None:
        queries = self.truth.query_vectors
        for name, vectors in {"corpus": self.corpus, "queries": queries}.items():
            require_searchable(name, vectors, self.similarity)
        if queries is not None and queries.shape[1] != self.corpus.shape[1]:
            raise ValueError(
                f"Expected queries of {self.corpus.shape[1]} dimensions like the corpus, got {queries.shape[1]}: "
                "encode both with one model."
            )
        if self.metric is not None and self.metric not in self.truth.metrics:
            raise ValueError(f"Expected a metric among {', '.join(self.truth.metrics)}, got {self.metric}.")
        _ = self.parts  # raises ValueError for too few groups

    @cached_property
    def groups(self) -> Codes:
        return self.truth.group_codes(self.corpus)

    @cached_property
    def parts(self) -> Codes:
        return split(self.groups, self.seed)

    @property
    def judged_by(self) -> str:
        return self.metric or self.truth.metrics[0]

    @property
    def setting(self) -> VariantSetting:
        n, d = self.corpus.shape
        variance = float(self.corpus.var(0, dtype=np.float64).mean())
        uses_search = self.truth.uses_search and self.judged_by != "probe_accuracy"
        return VariantSetting(n, d, variance, allows_methods=self.truth.kind != "compression", uses_search=uses_search)


def decide(
    task: JudgingTask,
    variants: Sequence[Variant] | None = None,
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> Decision:
    """Return the score of each variant, the best, and the smallest within ``tolerance`` of it.

    ``variants`` starts with the baseline; None takes ``default_variants``. ``progress`` receives each
    ``ScoredVariant``, grouped by method. Raises ValueError if the vectors do not suit a method.
    """
    variants = default_variants(task.setting) if variants is None else list(variants)
    parts, (n, d) = task.parts, task.corpus.shape
    # Masks over the judged units, which are those outside the fit part.
    choosing, reporting = (parts[parts != TaskPart.FIT] == part for part in (TaskPart.CHOOSE, TaskPart.REPORT))
    statistic, equal_weights = task.truth.statistic(parts == TaskPart.CHOOSE), np.ones((1, int(choosing.sum())))
    # Sorted by method, then by dimensions, so that each transformation is computed once.
    methods = list(dict.fromkeys((variant.method, variant.parameters) for variant in variants))
    dimensions = list(dict.fromkeys(variant.dimensions for variant in variants))
    sorted_variants = sorted(
        variants,
        key=lambda variant: (methods.index((variant.method, variant.parameters)), dimensions.index(variant.dimensions)),
    )
    measured_variants: dict[Variant, tuple[ScoredVariant, _VariantMeasurement]] = {}
    for variant, measurement in zip(sorted_variants, _measure_variants(task, sorted_variants), strict=True):
        choose_score = float(statistic(measurement.values[None, choosing], equal_weights)[0, 0])
        scored = ScoredVariant(variant, variant.bytes_of(d), measurement.isoscore, choose_score)
        measured_variants[variant] = scored, measurement
        if progress is not None:
            progress(scored)
    scored_variants = [measured_variants[variant][0] for variant in variants]
    measurements = [measured_variants[variant][1] for variant in variants]
    values = np.stack([measurement.values for measurement in measurements])
    choose_gains = gains(values[:, choosing], task.groups[parts == TaskPart.CHOOSE], statistic, task.seed)
    choice = choose_variants(
        variants,
        [scored.choose_score for scored in scored_variants],
        [gain.is_clear for gain in choose_gains],
        [scored.bytes for scored in scored_variants],
        tolerance,
    )
    smallest_difference = Gain(0.0, 0.0, 0.0)
    if choice.smallest != choice.chosen:
        interval = _report_intervals(task, values[[choice.chosen, choice.smallest]][:, reporting])[1]
        smallest_difference = Gain(interval.difference, interval.difference_low, interval.difference_high)
    # ``intervals`` would widen the differences of variants that equal the baseline in every value.
    equals_baseline = (values == values[BASELINE]).all(1)
    report_intervals = [
        interval._replace(difference_low=0.0, difference_high=0.0) if is_equal else interval
        for interval, is_equal in zip(_report_intervals(task, values[:, reporting]), equals_baseline, strict=True)
    ]
    return Decision(
        task=task.truth.kind,
        metric=task.judged_by,
        similarity=task.similarity,
        n=n,
        d=d,
        fit_units=int((parts == TaskPart.FIT).sum()),
        choose_units=int(choosing.sum()),
        report_units=int(reporting.sum()),
        variants=tuple(
            VariantScores(*scored, gain, interval, measurement.recall, measurement.retrieved)
            for scored, gain, interval, measurement in zip(
                scored_variants, choose_gains, report_intervals, measurements, strict=True
            )
        ),
        choice=choice,
        smallest_difference=smallest_difference,
        tolerance=tolerance,
        trivial_score=task.truth.trivial_score(task.judged_by, parts),
    )


def _report_intervals(task: JudgingTask, values: Numbers) -> list[Interval]:
    """Return the intervals of variants by their values [V, m] on the report part; the first is the baseline."""
    reporting = task.parts == TaskPart.REPORT
    return intervals(values, task.groups[reporting], task.truth.statistic(reporting), task.seed)


def map_of(task: JudgingTask, variant: Variant) -> Map:
    return fit_map(_select_fit_points(task), variant, task.similarity, task.seed)


@dataclass(frozen=True, eq=False)
class _VariantMeasurement:
    values: Numbers  # [j], of the choose and report units
    isoscore: float | None  # This and the next two: as in `VariantScores`
    recall: float | None
    retrieved: RetrievalCounts | None


def _measure_variants(task: JudgingTask, variants: Sequence[Variant]) -> Iterator[_VariantMeasurement]:
    """Yield the measurements of variants, reusing the transformation of the previous one where possible."""
    points = _select_fit_points(task)
    components = cache(lambda: principal_components(torch.from_numpy(points)))
    fitted_method: tuple[object, ...] | None = None
    fitted: FittedMap | None = None
    transformed = points
    cloud: _TransformedCloud | None = None
    for variant in variants:
        if (variant.method, variant.parameters) != fitted_method:
            fitted_method, cloud = (variant.method, variant.parameters), None
            fitted = fit_variant(points, variant, task.seed, components)
            transformed = apply_fitted(fitted, points)
        if cloud is None or cloud.variant.dimensions != variant.dimensions:
            matrix = dimension_matrix(transformed, variant.dimensions)
            corpus = reduce_dimensions(transformed[: len(task.corpus)], matrix)
            queries = None
            if task.truth.query_vectors is not None:
                transformed_queries = apply_fitted(fitted, task.truth.query_vectors)
                queries = prepare(reduce_dimensions(transformed_queries, matrix), task.similarity)
            rows = prepare(corpus, task.similarity)
            exact_neighbors = task.truth.neighbors(
                StoredSpace(rows, VectorStorage.FLOAT32, task.similarity), queries, task.parts
            )
            n, scored_rows = len(corpus), np.ascontiguousarray(corpus)
            if n > SCORED_ROWS:
                scored_rows = scored_rows[np.sort(np.random.default_rng(task.seed).permutation(n)[:SCORED_ROWS])]
            isoscore = isoscore_unbiased(torch.from_numpy(scored_rows)).value
            cloud = _TransformedCloud(variant, rows, queries, exact_neighbors, isoscore)
        space = StoredSpace(cloud.rows, variant.storage, task.similarity, task.seed)
        is_exact = variant.storage is VectorStorage.FLOAT32
        neighbors = cloud.exact_neighbors if is_exact else task.truth.neighbors(space, cloud.queries, task.parts)
        values = task.truth.values(space, neighbors, task.judged_by, task.parts)
        yield _VariantMeasurement(
            values, cloud.isoscore, recall(neighbors, cloud.exact_neighbors), task.truth.retrieval_counts(neighbors)
        )


def _select_fit_points(task: JudgingTask) -> NDArray[Any]:
    if task.truth.query_vectors is None:
        return task.corpus
    return np.concatenate([task.corpus, task.truth.query_vectors[task.parts == TaskPart.FIT].astype(task.corpus.dtype)])


@dataclass(frozen=True, eq=False)
class _TransformedCloud:
    """Corpus and queries after post-processing and reduction, before storage."""

    variant: Variant  # Its method and dimensions, whatever its storage
    rows: Floats
    queries: Floats | None
    exact_neighbors: Indices | None  # Neighbors found in float32; None if nothing is searched
    isoscore: float | None


def recall(neighbors: Indices | None, exact: Indices | None) -> float | None:
    """Return the share of exact neighbors [j, k] among the neighbors [j, k] found, or None if nothing is searched."""
    if neighbors is None or exact is None:
        return None
    return float((exact[:, :, None] == neighbors[:, None, :]).any(2).mean())
