"""Cases of ``isoscope calibrate``: promises of cutoffs, the band of P(match) and remedies, on generated and real tasks.

Each draws labels from a pool with replacement, and compares a promise with the rate over the whole pool.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from benchmarks._calibration import LEVEL, Case, coverage
from benchmarks._encoded_texts import DATA, read_squad, read_sst2, read_stsb
from isotropy.catalog import Similarity
from isotropy.catalog.calibration import PromiseKind
from isotropy.tasks.calibrate import calibrate
from isotropy.tasks.cutoffs import cutoff_unit, find_cutoff, match_curve
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.labeled_pairs import label_pairs
from isotropy.tasks.maps import fit_map
from isotropy.tasks.parts import Codes, TaskPart, groups_of
from isotropy.tasks.search import prepare
from isotropy.tasks.truth import LabelTruth, PairTruth, QueryTruth, Truth
from isotropy.tasks.variants import Variant

SIMULATIONS = 2_000
REMEDY_SIMULATIONS = 300
PROMISE = "promise kept"
FALSE_REMEDY = "a remedy is advised"
MIN_KEPT = 0.94
MATCH = 4.0  # Minimum score of a match in STS-B
GROUPS, DIMENSIONS, MAX_SIZE = 6_000, 16, 7
LAYER_LEAD = 1.5  # In standard deviations: an AUC of .86

Points = NDArray[np.float32]
Numbers = NDArray[np.float64]


class Population(NamedTuple):
    """Similarities of all pairs of a pool, each group with the same weight."""

    similarities: Numbers  # [m], sorted
    below: Numbers  # [m + 1], the weight of the first k

    @classmethod
    def weigh_groups_equally(cls, similarities: Numbers, groups: Codes) -> "Population":
        order = np.argsort(similarities)
        weights = (1 / np.bincount(groups)[groups])[order]
        return cls(similarities[order], np.concatenate([[0], weights.cumsum() / weights.sum()]))

    def share_below(self, cutoff: float) -> float:
        return float(self.below[np.searchsorted(self.similarities, cutoff)])


class Pool(NamedTuple):
    """All pairs of a task, and how labels are drawn from it: ``draw`` returns a corpus and its ground truth."""

    matches: Population
    non_matches: Population
    draw: Callable[[np.random.Generator, int], tuple[Points, Truth]]


def _cosines(left: Points, right: Points) -> Numbers:
    pairs = prepare(left, Similarity.COSINE), prepare(right, Similarity.COSINE)
    return np.asarray(np.einsum("md,md->m", *pairs, dtype=np.float64))


def _pair_pool(left: Points, right: Points, is_match: NDArray[np.bool_], groups: Codes) -> Pool:
    cosines = _cosines(left, right)
    matches, non_matches = (
        Population.weigh_groups_equally(cosines[mask], np.unique(groups[mask], return_inverse=True)[1])
        for mask in (is_match, ~is_match)
    )
    order = np.argsort(groups, kind="stable")
    members = np.split(order, np.unique(groups[order], return_index=True)[1][1:])

    def draw(random: np.random.Generator, labels: int) -> tuple[Points, Truth]:
        """Draw groups until both kinds have that many independent labels."""
        drawn: list[NDArray[np.int64]] = []
        counts = np.zeros(2, np.int64)
        while counts.min() < labels:
            group = members[random.integers(len(members))]
            drawn.append(group)
            counts += [(~is_match[group]).any(), is_match[group].any()]
        pairs = np.concatenate(drawn)
        codes = np.repeat(np.arange(len(drawn)), [len(group) for group in drawn])
        rows = np.arange(2 * len(pairs)).reshape(2, -1).T
        return np.concatenate([left[pairs], right[pairs]]), PairTruth(rows, is_match[pairs].astype(float), codes)

    return Pool(matches, non_matches, draw)


@cache
def generated_pool(size: int, digits: int | None = None) -> Pool:
    """Return pairs of a cloud with a common mean, whose groups of 1 to ``size`` pairs share a text and its noise.

    With ``digits``, coordinates are rounded, so that many pairs have the same similarity.
    """
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(GROUPS), random.integers(1, size + 1, GROUPS))
    sd = 1 / np.sqrt(np.arange(1, DIMENSIONS + 1))
    left = random.standard_normal((GROUPS, DIMENSIONS))[groups]
    hardness = np.exp(random.normal(-0.5, 0.6, GROUPS))[groups, None]
    is_match = random.random(len(groups)) < 0.5
    noise = random.standard_normal((len(groups), DIMENSIONS))
    right = np.where(is_match[:, None], left + hardness * noise, noise)
    left_points, right_points = ((side * sd + 0.4).astype(np.float32) for side in (left, right))
    if digits is not None:
        left_points, right_points = (side.round(digits)[:, :3] for side in (left_points, right_points))
    return _pair_pool(left_points, right_points, is_match, groups)


@cache
def stsb_pool(encoder: str) -> Pool:
    pairs = read_stsb(encoder)
    groups = groups_of(pairs.texts.tolist())
    is_small = np.bincount(groups)[groups] <= MAX_SIZE  # a few captions share a text with hundreds
    codes = np.unique(groups[is_small], return_inverse=True)[1]
    return _pair_pool(pairs.left[is_small], pairs.right[is_small], pairs.scores[is_small] >= MATCH, codes)


@cache
def squad_pool() -> Pool:
    """Return questions with their paragraph or a random other one; those of one paragraph are a group."""
    squad = read_squad()
    corpus, questions, relevant = squad
    cosines = prepare(questions, Similarity.COSINE).astype(np.float64) @ prepare(corpus, Similarity.COSINE).T
    is_other = np.ones(cosines.shape, bool)
    is_other[np.arange(len(questions)), relevant] = False
    codes = np.unique(relevant, return_inverse=True)[1]
    ids = [str(row) for row in range(len(corpus))]

    def draw(random: np.random.Generator, labels: int) -> tuple[Points, Truth]:
        rows, groups = squad.draw(random, labels)
        return corpus, QueryTruth(questions[rows], [{int(relevant[row]): 1} for row in rows], ids, groups)

    non_matches = Population.weigh_groups_equally(cosines[is_other], np.repeat(codes, len(corpus) - 1))
    return Pool(Population.weigh_groups_equally(cosines[~is_other], codes), non_matches, draw)


@cache
def sst2_pool() -> Pool:
    """Return sentences with a random one of their label, or of the other label."""
    vectors, labels = read_sst2()
    random, pairs = np.random.default_rng(1), 400_000
    rows = random.integers(0, len(labels), (pairs, 2))
    rows = rows[rows[:, 0] != rows[:, 1]]
    cosines = _cosines(vectors[rows[:, 0]], vectors[rows[:, 1]])
    is_match = labels[rows[:, 0]] == labels[rows[:, 1]]
    # A row finds a match whatever its label: both labels weigh as often as they occur.
    same_label_counts = np.bincount(labels[rows[is_match, 0]])
    weights = (np.bincount(labels) / len(labels) / same_label_counts)[labels[rows[is_match, 0]]]
    order = np.argsort(cosines[is_match])
    matches = Population(cosines[is_match][order], np.concatenate([[0], weights[order].cumsum()]))

    def draw(random: np.random.Generator, count: int) -> tuple[Points, Truth]:
        drawn = random.choice(len(labels), 4 * count, replace=False)  # half are paired, and half of these match
        ids = [str(row) for row in range(len(drawn))]
        return vectors[drawn], LabelTruth(np.arange(len(drawn)), labels[drawn], ids, np.arange(len(drawn)))

    non_matches = cosines[~is_match]
    return Pool(matches, Population.weigh_groups_equally(non_matches, np.arange(len(non_matches))), draw)


def keeps_promise(
    random: np.random.Generator, pool: Callable[[], Pool], labels: int, kind: PromiseKind, promise: float
) -> bool:
    """Return whether a cutoff that was set on drawn labels keeps its promise in the pool."""
    matches, non_matches, draw = pool()
    while True:
        corpus, truth = draw(random, labels)
        pairs = label_pairs(corpus, truth, int(random.integers(2**31)))
        mapping = fit_map(pairs.fit_points[:1], Variant(), Similarity.COSINE, 0)
        similarities = pairs.compare(mapping, pairs.rows)
        is_label = (pairs.parts == TaskPart.CHOOSE) & (pairs.is_match == (kind is PromiseKind.MISS))
        cutoff = find_cutoff(similarities[is_label], kind, promise, cutoff_unit(similarities))
        if cutoff is not None:  # else the command says so
            is_miss = kind is PromiseKind.MISS
            wrong = matches.share_below(cutoff) if is_miss else 1 - non_matches.share_below(cutoff)
            return wrong <= promise


def keeps_promise_of_best_layer(
    random: np.random.Generator, layers: int, correlation: float, labels: int, promise: float
) -> bool:
    """Return whether a promised miss rate is kept by the layer that ranks first by AUC on the labels that set it.

    All layers are equally good: similarities are normal, those of matches ``LAYER_LEAD`` higher.
    """

    def draw_similarities() -> Numbers:
        shared_noise, layer_noise = random.standard_normal((labels, 1)), random.standard_normal((labels, layers))
        return np.asarray(np.sqrt(correlation) * shared_noise + np.sqrt(1 - correlation) * layer_noise)

    matches, non_matches = draw_similarities() + LAYER_LEAD, draw_similarities()
    ranks = rankdata(np.concatenate([matches, non_matches]), axis=0)
    best = int(ranks[:labels].sum(0).argmax())
    unit = cutoff_unit(np.concatenate([matches[:, best], non_matches[:, best]]))
    cutoff = find_cutoff(matches[:, best], PromiseKind.MISS, promise, unit)
    return cutoff is not None and bool(norm.cdf(cutoff - LAYER_LEAD) <= promise)


def band_covers(random: np.random.Generator, pairs: int) -> bool:
    """Return whether the band covers P(match) at a random similarity, for a steep curve with a step."""
    similarities = random.beta(2, 2, pairs)
    truth = 0.05 + 0.4 / (1 + np.exp(-20 * (similarities - 0.4))) + 0.5 * (similarities > 0.7)
    curve = match_curve(similarities, random.random(pairs) < truth, seed=0)
    point = curve[random.integers(len(curve))]
    share = 0.05 + 0.4 / (1 + np.exp(-20 * (point.similarity - 0.4))) + 0.5 * (point.similarity > 0.7)
    return bool(point.low <= share <= point.high)


def _draw_hidden(
    random: np.random.Generator, labels: int, width: float
) -> tuple[Points, NDArray[np.int64], NDArray[np.bool_]]:
    """Return pairs of an isotropic cloud whose first dimension is ``width`` times as wide."""
    left, noise = random.standard_normal((2, 2 * labels, DIMENSIONS))
    is_match = np.arange(2 * labels) % 2 == 0
    right = np.where(is_match[:, None], left + noise, random.standard_normal(left.shape))
    corpus = np.concatenate([left, right]).astype(np.float32)
    corpus[:, 0] *= width
    return corpus, np.arange(4 * labels).reshape(2, -1).T, is_match


def _calibrate_hidden(random: np.random.Generator, labels: int, width: float) -> tuple[int, bool]:
    """Return the remedy that is advised, and whether its cutoff of a miss rate of .1 keeps the promise."""
    corpus, rows, is_match = _draw_hidden(random, labels, width)
    task = JudgingTask(corpus, PairTruth(rows, is_match.astype(float)), seed=int(random.integers(2**31)))
    calibration, mapping = calibrate(task)
    cutoff = calibration.find_cutoff(PromiseKind.MISS, 0.1).cutoff
    fresh, rows, is_match = _draw_hidden(random, 20_000, width)
    points = mapping.apply(fresh).astype(np.float64)
    cosines = np.einsum("md,md->m", points[rows[is_match, 0]], points[rows[is_match, 1]])
    return calibration.chosen, cutoff is None or bool((cosines < cutoff).mean() <= 0.1)


def advises_remedy(random: np.random.Generator, labels: int, width: float) -> bool:
    return _calibrate_hidden(random, labels, width)[0] > 0


def keeps_promise_after_remedy(random: np.random.Generator, labels: int, width: float) -> bool:
    return _calibrate_hidden(random, labels, width)[1]


def cases() -> list[Case]:
    """Return the cases of all claims on cutoffs; those on real texts where ``ISOSCOPE_BENCH_DATA`` is set."""
    pools: dict[str, Callable[[], Pool]] = {
        "generated pairs": partial(generated_pool, 1),
        "generated, many ties": partial(generated_pool, 1, 1),
        f"generated, groups of 1 to {MAX_SIZE}": partial(generated_pool, MAX_SIZE),
    }
    if DATA is not None:
        pools |= {
            "STS-B, MiniLM": partial(stsb_pool, "minilm"),
            "STS-B, word2vec": partial(stsb_pool, "word2vec"),
            "SQuAD questions": squad_pool,
            "SST-2 labels": sst2_pool,
        }
    designs = [(50, PromiseKind.MISS, 0.1), (200, PromiseKind.MISS, 0.05), (200, PromiseKind.MISS, 0.1),
               (1000, PromiseKind.MISS, 0.05), (1000, PromiseKind.MISS, 0.1),
               (200, PromiseKind.FALSE_MATCH, 0.05), (1000, PromiseKind.FALSE_MATCH, 0.01)]  # fmt: skip
    promises = [
        Case(f"cutoffs, {name}, {labels} of a kind, {kind} {promise}", PROMISE, MIN_KEPT, 1.0, SIMULATIONS,
             partial(keeps_promise, pool=pool, labels=labels, kind=kind, promise=promise))
        for name, pool in pools.items()
        for labels, kind, promise in designs
    ]  # fmt: skip
    bands = [
        coverage(f"cutoffs, band of P(match), {pairs} pairs", partial(band_covers, pairs=pairs), SIMULATIONS,
                 conservative=True)
        for pairs in (50, 200, 1000)
    ]  # fmt: skip
    remedies = [
        Case("cutoffs, 200 of a kind, nothing to gain", FALSE_REMEDY, 0, LEVEL, REMEDY_SIMULATIONS,
             partial(advises_remedy, labels=200, width=1)),
        Case("cutoffs, 200 of a kind, one dimension 5x as wide", FALSE_REMEDY, 0.5, 1, REMEDY_SIMULATIONS,
             partial(advises_remedy, labels=200, width=5)),
        Case("cutoffs, 200 of a kind, 5x as wide, after the remedy", PROMISE, MIN_KEPT, 1, REMEDY_SIMULATIONS,
             partial(keeps_promise_after_remedy, labels=200, width=5)),
    ]  # fmt: skip
    best_layers = [
        Case(f"cutoffs, best of {layers} layers, correlation {correlation}, 120 of a kind, miss {promise}", PROMISE,
             lowest, 1, SIMULATIONS, partial(keeps_promise_of_best_layer, layers=layers, correlation=correlation,
                                             labels=120, promise=promise))
        for layers, correlation, promise, lowest in (
            (1, 0, 0.1, MIN_KEPT), (7, 0.9, 0.05, MIN_KEPT), (7, 0.9, 0.1, 0.92), (7, 0, 0.05, 0.92), (7, 0, 0.1, 0.84),
        )
    ]  # fmt: skip
    return [*promises, *bands, *remedies, *best_layers]
