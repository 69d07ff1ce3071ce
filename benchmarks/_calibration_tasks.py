"""Intervals of ``isoscope decide``, tried on generated tasks and compared with scores on many fresh queries."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks._calibration import LEVEL, Case, coverage
from isotropy.catalog import Similarity
from isotropy.tasks.bootstrap import intervals, mean
from isotropy.tasks.decision import BASELINE
from isotropy.tasks.judge import JudgingTask, decide, map_of
from isotropy.tasks.search import rank_ties
from isotropy.tasks.storage import StoredSpace, VectorStorage
from isotropy.tasks.truth import DEPTH, QueryTruth
from isotropy.tasks.variants import Dimensions, Parameters, Variant

SIMULATIONS = 1000
CHOSEN = "a change is chosen"
"""The claim of cases that count decisions for another variant than the vectors as they are."""
DOCUMENTS, DIMENSIONS = 600, 16
FRESH = 4000  # Documents drawn whose queries give the true score: their own error adds one percent to that of 40 groups
REMOVAL: Parameters = (("D", 1),)
VARIANTS = (
    Variant(),
    Variant(storage=VectorStorage.INT8),
    Variant(dimensions=Dimensions("pca", 8)),
    Variant("centring"),
    Variant("all_but_the_top", REMOVAL),
    Variant("zca_whitening"),
    Variant("centring", storage=VectorStorage.RESCORED),
)
Points = NDArray[np.float32]


def corpus_of(random: np.random.Generator) -> Points:
    """Return documents with a common mean and an uneven spectrum."""
    sd = 1 / np.sqrt(np.arange(1, DIMENSIONS + 1))
    return (random.standard_normal((DOCUMENTS, DIMENSIONS)) * sd + 0.3).astype(np.float32)


def asked_of(
    random: np.random.Generator, corpus: Points, documents: int, size: int
) -> tuple[Points, NDArray[np.int64]]:
    """Return queries for documents drawn at random and the document of each; those of one share how hard it is.

    Where ``size`` is above 1 a document has 1 to 2 ``size`` - 1 queries.
    """
    drawn = random.integers(0, len(corpus), documents)
    sizes = random.integers(1, 2 * size, documents)
    hard = np.exp(random.normal(-0.9, 0.6, documents))
    shift = random.standard_normal((documents, DIMENSIONS)) * hard[:, None] * (0.3 if size > 1 else 0)
    relevant, group = np.repeat(drawn, sizes), np.repeat(np.arange(documents), sizes)
    noise = random.standard_normal((len(group), DIMENSIONS)) * hard[group, None] * 0.5
    return (corpus[relevant] + shift[group] + noise).astype(np.float32), relevant


def _task(random: np.random.Generator, corpus: Points, documents: int, size: int = 1) -> JudgingTask:
    queries, relevant = asked_of(random, corpus, documents, size)
    truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], [str(row) for row in range(len(corpus))])
    return JudgingTask(corpus, truth, Similarity.COSINE, seed=int(random.integers(2**31)))


def chooses_without_gain(random: np.random.Generator, documents: int) -> bool:
    """Return whether a change is chosen for an isotropic corpus and queries with isotropic noise: none gains there."""
    corpus = random.standard_normal((DOCUMENTS, DIMENSIONS)).astype(np.float32)
    return decide(_task(random, corpus, documents), VARIANTS).chosen != BASELINE


def chooses_worse(random: np.random.Generator, documents: int) -> bool:
    """Return whether the chosen variant is worse than no change on fresh queries."""
    corpus = corpus_of(random)
    task = _task(random, corpus, documents)
    decision = decide(task, VARIANTS)
    return decision.chosen != BASELINE and _true_difference(random, task, decision.chosen, BASELINE) < 0


def covers_smallest(random: np.random.Generator, documents: int) -> bool:
    """Return whether the interval of the smallest minus the chosen variant holds their difference on fresh queries."""
    task = _task(random, corpus_of(random), documents)
    decision = decide(task, VARIANTS, tolerance=0.05)
    interval = decision.smallest_difference
    return interval.low <= _true_difference(random, task, decision.smallest, decision.chosen) <= interval.high


def finds_gain(random: np.random.Generator, documents: int, scale: float) -> bool:
    """Return whether a change is chosen if one dimension is ``scale`` times as wide as the others."""
    corpus = random.standard_normal((DOCUMENTS, DIMENSIONS)).astype(np.float32)
    queries, relevant = asked_of(random, corpus, documents, 1)
    corpus[:, 0] *= scale
    queries[:, 0] *= scale
    truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], [str(row) for row in range(DOCUMENTS)])
    return decide(JudgingTask(corpus, truth, seed=int(random.integers(2**31))), VARIANTS).chosen != BASELINE


def _true_difference(random: np.random.Generator, task: JudgingTask, first: int, second: int) -> float:
    fresh, relevant = asked_of(random, task.corpus, FRESH, 1)
    scores = [_score(task, VARIANTS[index], fresh, relevant) for index in (first, second)]
    return scores[0] - scores[1]


def covers(random: np.random.Generator, documents: int, size: int, *, smallest: bool = False) -> bool:
    """Return whether the interval of the chosen variant, or of the smallest, holds its score on fresh queries."""
    corpus = corpus_of(random)
    task = _task(random, corpus, documents, size)
    decision = decide(task, VARIANTS)
    judged = decision.variants[decision.smallest if smallest else decision.chosen]
    fresh, of_fresh = asked_of(random, corpus, FRESH, size)
    score = _score(task, judged.variant, fresh, of_fresh)
    return judged.report.low <= score <= judged.report.high


def _score(task: JudgingTask, variant: Variant, fresh: Points, relevant: NDArray[np.int64]) -> float:
    image = map_of(task, variant)
    space = StoredSpace(image.apply(task.corpus), variant.storage, task.similarity, task.seed)
    nearest = space.nearest(image.apply(fresh), DEPTH, rank_ties([str(row) for row in range(DOCUMENTS)]))
    # nDCG of one relevant document, in closed form.
    return float(((nearest == relevant[:, None]) / np.log2(np.arange(2, DEPTH + 2))).sum(1).mean())


# By how much nDCG of a query changes where its document moves by a place or more.
CHANGES = (0.1, 0.13, 0.2, 0.37, 0.5, 0.63, 1.0)


def holds_no_difference(random: np.random.Generator, queries: int, changed: float) -> bool:
    """Return whether the interval of a difference holds 0, where some queries change, either way by chance."""
    moved = random.random(queries) < changed
    change = np.where(moved, random.choice([-1, 1], queries) * random.choice(CHANGES, queries), 0.0)
    found = intervals(np.stack([np.zeros(queries), change]), np.arange(queries), mean, seed=0)[1]
    return found.difference_low <= 0 <= found.difference_high


def cases() -> list[Case]:
    """Return the claims on tasks: queries apart and in groups, many and few."""
    tried = {"300 queries apart": (300, 1), "100 queries apart": (100, 1), "150 groups of 1 to 7 queries": (150, 4)}
    found = [
        coverage(f"tasks, {name}, chosen", partial(covers, documents=documents, size=size), SIMULATIONS)
        for name, (documents, size) in tried.items()
    ]
    few = partial(covers, documents=100, size=1, smallest=True)
    differences = [
        coverage(
            f"tasks, difference of {queries} queries, {changed:.0%} change by chance",
            partial(holds_no_difference, queries=queries, changed=changed),
            SIMULATIONS,
            conservative=True,
        )
        for queries, changed in ((10, 0.4), (20, 0.4), (40, 0.1), (100, 0.1))
    ]
    without_gain = [
        Case(f"tasks, {documents} queries, no true gain, a change is chosen", CHOSEN, 0, LEVEL, SIMULATIONS,
             partial(chooses_without_gain, documents=documents))
        for documents in (100, 300, 1500)
    ]  # fmt: skip
    worse = Case("tasks, 300 queries, the chosen is worse", CHOSEN, 0, LEVEL, SIMULATIONS,
                 partial(chooses_worse, documents=300))  # fmt: skip
    smallest = coverage(
        "tasks, 300 queries, smallest minus chosen", partial(covers_smallest, documents=300), SIMULATIONS,
        conservative=True,
    )  # fmt: skip
    power = [
        Case(f"tasks, {documents} queries, one dimension {scale:g}x as wide", CHOSEN, least, 1.0, SIMULATIONS,
             partial(finds_gain, documents=documents, scale=scale))
        for documents, scale, least in ((100, 20, 0), (300, 10, 0.5), (1500, 6, 0.5))
    ]  # fmt: skip
    return [
        *found,
        *without_gain,
        worse,
        smallest,
        *power,
        coverage("tasks, 100 queries apart, smallest", few, SIMULATIONS),
        *differences,
    ]
