"""Set cutoffs of a similarity by labeled pairs, before and after each remedy."""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import torch

from isotropy.catalog import Similarity
from isotropy.catalog.calibration import (
    PROMISES,
    CalibratedVariant,
    Calibration,
    Cutoff,
    FindingRate,
    PairHistogram,
    PairSpace,
    PromiseKind,
    RandomSimilarity,
)
from isotropy.postprocess.components import principal_components
from isotropy.tasks.bootstrap import LEVEL, Numbers, intervals, mean
from isotropy.tasks.cutoff_words import describe_comparison, describe_cutoffs, describe_random_pairs
from isotropy.tasks.cutoffs import count_share, cutoff_unit, fewest_labels, find_cutoff, match_curve
from isotropy.tasks.decision import BASELINE
from isotropy.tasks.gains import resampled_gains
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.labeled_pairs import Booleans, LabeledPairs, label_pairs
from isotropy.tasks.maps import Map, fit_map
from isotropy.tasks.parts import TaskPart
from isotropy.tasks.storage import VectorStorage
from isotropy.tasks.variants import remedies

MIN_FALSE_MATCHES = 5  # Minimum false matches at a cutoff that compares remedies; with fewer, chance sets the cutoff
FEWEST_MATCHES = 10  # Minimum matches in the choose part, and in the report part, for comparing remedies
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BINS = 40


class CalibratedMap(NamedTuple):
    """A calibration and the map of the chosen remedy, to which its cutoffs belong."""

    calibration: Calibration
    mapping: Map


def calibrate(
    task: JudgingTask,
    match: float | None = None,
    false_match_rate: float = PROMISES[0],
    progress: Callable[[], object] = lambda: None,
) -> CalibratedMap:
    """Return cutoffs for all ``PROMISES``, and the remedy after which most matches are found.

    Maps are fitted on one part, cutoffs are set on another, and their errors are counted on a third. ``match`` is the
    minimum score of a match; None for labels, queries and scores of 0 and 1. Remedies are compared at
    ``false_match_rate``, or a larger rate if labels are few. ``progress`` is called after each remedy and the baseline.
    Raises ValueError for too few pairs, or if all or no pairs match.
    """
    pairs = label_pairs(task.corpus, task.truth, task.seed, match)
    variants = [variant for variant in remedies(task.setting) if variant.storage is VectorStorage.FLOAT32]
    components = cache(lambda: principal_components(torch.from_numpy(pairs.fit_points)))
    fit = partial(fit_map, pairs.fit_points, similarity=task.similarity, seed=task.seed, components=components)
    permuted_rows = pairs.permuted_rows(task.seed)
    similarities, permuted = [], []
    for variant in variants:
        all_similarities = pairs.compare(fit(variant), np.concatenate([pairs.rows, permuted_rows]))
        similarities.append(all_similarities[: len(pairs.rows)])
        permuted.append(all_similarities[len(pairs.rows) :])
        progress()
    rate, findings = _compare_variants(pairs, np.stack(similarities), false_match_rate, task.seed)
    clear_indices = [index for index, finding in enumerate(findings) if finding is not None and finding.gain_low > 0]
    chosen = max(clear_indices, key=lambda index: findings[index].choose, default=BASELINE)
    sign = -1 if task.similarity is Similarity.EUCLIDEAN else 1  # distances are compared by their negatives
    calibrated = [
        CalibratedVariant(variant.name, _summarize_similarities(sign * values), findings[index] if findings else None)
        for index, (variant, values) in enumerate(zip(variants, permuted, strict=True))
    ]
    spaces = []
    for index in dict.fromkeys((BASELINE, chosen)):
        # Any of the remedies might have been chosen, so they share the risk that a promise is broken.
        risk = (1 - LEVEL) / (1 if index == BASELINE else len(variants) - 1)
        mapping = fit(variants[index])
        is_drawn = pairs.is_drawn & (pairs.parts != TaskPart.FIT)
        curve = match_curve(similarities[index][is_drawn], pairs.is_match[is_drawn], task.seed, sign)
        cutoffs = describe_cutoffs(_set_cutoffs(pairs, similarities[index], risk, sign), mapping, pairs.source)
        histogram = _make_histogram(sign * similarities[index], sign * permuted[index], pairs.is_match)
        spaces.append(PairSpace(variants[index].name, 1 - risk, curve, cutoffs, histogram))
    calibration = Calibration(
        task=task.truth.kind,
        similarity=task.similarity,
        pairs=pairs.source,
        false_match_rate=rate,
        variants=calibrated,
        chosen=chosen,
        spaces=spaces,
        comparison=describe_comparison(calibrated, variants[chosen], chosen, rate),
        random=describe_random_pairs(calibrated[BASELINE].random, task.similarity),
    )
    return CalibratedMap(calibration, mapping)


def _compare_variants(
    pairs: LabeledPairs, similarities: Numbers, rate: float, seed: int
) -> tuple[float | None, list[FindingRate]]:
    """Return a rate of false matches, and what share of matches each variant finds at it by similarities [V, m].

    The rate is the smallest of ``PROMISES`` from ``rate`` on that the labels allow; (None, []) if they allow none.
    """
    choosing, reporting = (pairs.parts == part for part in (TaskPart.CHOOSE, TaskPart.REPORT))
    non_match_similarities = similarities[:, choosing & ~pairs.is_match]
    n_non_matches = non_match_similarities.shape[1]
    reported_matches, reported_non_matches = reporting & pairs.is_match, reporting & ~pairs.is_match
    usable_rates = [value for value in PROMISES if value >= rate and value * n_non_matches >= MIN_FALSE_MATCHES]
    fewest_matches = min((choosing & pairs.is_match).sum(), reported_matches.sum())
    if not usable_rates or fewest_matches < FEWEST_MATCHES or not reported_non_matches.any():
        return None, []
    statistic = partial(_shares_found, is_match=pairs.is_match[choosing], rate=usable_rates[0])
    gains = resampled_gains(similarities[:, choosing], pairs.groups[choosing], statistic, seed)
    choose_shares = statistic(similarities[:, choosing], np.ones((1, int(choosing.sum()))))[0]
    equal_weights = np.ones((1, n_non_matches))
    cutoffs = [_cutoffs_at_rate(values, equal_weights, usable_rates[0]) for values in non_match_similarities]
    is_found = (similarities[:, reported_matches] > np.array(cutoffs)).astype(np.float64)
    false_rates = (similarities[:, reported_non_matches] > np.array(cutoffs)).mean(1)
    findings = []
    for index, interval in enumerate(intervals(is_found, pairs.groups[reported_matches], mean, seed)):
        unchanged = (is_found[index] == is_found[BASELINE]).all()
        report = interval._replace(difference_low=0.0, difference_high=0.0) if unchanged else interval
        findings.append(FindingRate(float(choose_shares[index]), *gains[index], *report, float(false_rates[index])))
    return usable_rates[0], findings


def _shares_found(values: Numbers, weights: Numbers, *, is_match: Booleans, rate: float) -> Numbers:
    """Return the share of matches found [r, V], at cutoffs that at most ``rate`` of the non-matches exceed."""
    shares, match_weights, non_match_weights = [], weights[:, is_match], weights[:, ~is_match]
    for row in values:
        matches = row[is_match]
        order = np.argsort(-matches)
        found_weights = np.pad(match_weights[:, order].cumsum(1), ((0, 0), (1, 0)))
        above = np.searchsorted(-matches[order], -_cutoffs_at_rate(row[~is_match], non_match_weights, rate))
        shares.append(found_weights[np.arange(len(found_weights)), above] / np.maximum(found_weights[:, -1], 1))
    return np.stack(shares, axis=1)


def _cutoffs_at_rate(non_matches: Numbers, weights: Numbers, rate: float) -> Numbers:
    """Return the cutoffs [r] that at most ``rate`` of the non-matches [m] exceed, under weights [r, m]."""
    order = np.argsort(-non_matches)
    cumulative_weights = weights[:, order].cumsum(1)
    return np.asarray(non_matches[order][(cumulative_weights > rate * cumulative_weights[:, -1:]).argmax(1)])


def _set_cutoffs(pairs: LabeledPairs, similarities: Numbers, risk: float, sign: int) -> list[Cutoff]:
    choosing, reporting = (pairs.parts == part for part in (TaskPart.CHOOSE, TaskPart.REPORT))
    unit, cutoffs = cutoff_unit(similarities), []
    for kind in PromiseKind:
        labeled_similarities = similarities[choosing & (pairs.is_match == (kind is PromiseKind.MISS))]
        for promise in PROMISES:
            limit = find_cutoff(labeled_similarities, kind, promise, unit, risk)
            cutoff = misses = false_matches = precision = None
            if limit is not None:
                cutoff = sign * limit
                misses = count_share(similarities[reporting & pairs.is_match] < limit)
                false_matches = count_share(similarities[reporting & ~pairs.is_match] >= limit)
                if pairs.source.match is not None:
                    precision = count_share(pairs.is_match[reporting & pairs.is_drawn & (similarities >= limit)])
            n_labels, needed = len(labeled_similarities), fewest_labels(promise, risk)
            cutoffs.append(Cutoff(kind, promise, cutoff, n_labels, needed, misses, false_matches, precision))
    return cutoffs


def _summarize_similarities(values: Numbers) -> RandomSimilarity:
    quantiles = {f"{level:g}": float(np.quantile(values, level)) for level in QUANTILES}
    return RandomSimilarity(len(values), float(values.mean()), float(values.std()), quantiles)


def _make_histogram(similarities: Numbers, random_similarities: Numbers, is_match: Booleans) -> PairHistogram:
    edges = np.histogram_bin_edges(np.concatenate([similarities, random_similarities]), BINS)
    samples = (similarities[is_match], similarities[~is_match], random_similarities)
    shares = [(np.histogram(sample, edges)[0] / len(sample)).tolist() for sample in samples]
    return PairHistogram(edges.tolist(), *shares)
