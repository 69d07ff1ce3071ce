"""Intervals of ``isoscope decide``, tried on generated tasks and compared with scores on many fresh queries."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks._calibration import Case, coverage
from isotropy.catalog import Similarity
from isotropy.tasks.bootstrap import intervals, mean
from isotropy.tasks.judge import JudgingTask, decide, map_of
from isotropy.tasks.storage import StoredSpace, VectorStorage
from isotropy.tasks.truth import DEPTH, QueryTruth
from isotropy.tasks.variants import Dimensions, Parameters, Variant

SIMULATIONS = 1000
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


def covers(random: np.random.Generator, documents: int, size: int, *, smallest: bool = False) -> bool:
    """Return whether the interval of the chosen variant, or of the smallest, holds its score on fresh queries."""
    corpus = corpus_of(random)
    ids = [str(row) for row in range(DOCUMENTS)]
    queries, relevant = asked_of(random, corpus, documents, size)
    truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], ids)
    task = JudgingTask(corpus, truth, Similarity.COSINE, seed=int(random.integers(2**31)))
    decision = decide(task, VARIANTS)
    judged = decision.variants[decision.smallest if smallest else decision.chosen]
    fresh, of_fresh = asked_of(random, corpus, FRESH, size)
    score = _score(task, truth, judged.variant, fresh, of_fresh)
    return judged.report.low <= score <= judged.report.high


def _score(task: JudgingTask, truth: QueryTruth, variant: Variant, fresh: Points, relevant: NDArray[np.int64]) -> float:
    image = map_of(task, variant)
    space = StoredSpace(image.apply(task.corpus), variant.storage, task.similarity, task.seed)
    found = space.nearest(image.apply(fresh), DEPTH, truth.tie_ranks)
    # nDCG of one relevant document, in closed form.
    return float(((found == relevant[:, None]) / np.log2(np.arange(2, DEPTH + 2))).sum(1).mean())


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
    return [*found, coverage("tasks, 100 queries apart, smallest", few, SIMULATIONS), *differences]
