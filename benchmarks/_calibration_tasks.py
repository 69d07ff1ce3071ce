"""Cases of the intervals of ``isoscope decide``: generated tasks, whose true scores come from many new queries."""

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
"""The claim of cases that count decisions for a variant other than the unchanged vectors."""
DOCUMENTS, DIMENSIONS = 600, 16
N_FRESH = 4000  # Documents whose queries give the true score; its error adds one percent to that of 40 groups
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


def draw_corpus(random: np.random.Generator) -> Points:
    """Return documents with a common mean and an uneven spectrum."""
    sd = 1 / np.sqrt(np.arange(1, DIMENSIONS + 1))
    return (random.standard_normal((DOCUMENTS, DIMENSIONS)) * sd + 0.3).astype(np.float32)


def draw_queries(
    random: np.random.Generator, corpus: Points, documents: int, size: int
) -> tuple[Points, NDArray[np.int64]]:
    """Return queries for random documents and the row of each query's document.

    A document has 1 to 2 ``size`` - 1 queries, which are equally hard.
    """
    document_rows = random.integers(0, len(corpus), documents)
    sizes = random.integers(1, 2 * size, documents)
    hardness = np.exp(random.normal(-0.9, 0.6, documents))
    shift = random.standard_normal((documents, DIMENSIONS)) * hardness[:, None] * (0.3 if size > 1 else 0)
    relevant, group = np.repeat(document_rows, sizes), np.repeat(np.arange(documents), sizes)
    noise = random.standard_normal((len(group), DIMENSIONS)) * hardness[group, None] * 0.5
    return (corpus[relevant] + shift[group] + noise).astype(np.float32), relevant


def _draw_task(random: np.random.Generator, corpus: Points, documents: int, size: int = 1) -> JudgingTask:
    queries, relevant = draw_queries(random, corpus, documents, size)
    truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], [str(row) for row in range(len(corpus))])
    return JudgingTask(corpus, truth, Similarity.COSINE, seed=int(random.integers(2**31)))


def chooses_without_gain(random: np.random.Generator, documents: int) -> bool:
    """Return whether a change is chosen for an isotropic corpus and isotropic query noise, where none gains."""
    corpus = random.standard_normal((DOCUMENTS, DIMENSIONS)).astype(np.float32)
    return decide(_draw_task(random, corpus, documents), VARIANTS).chosen != BASELINE


def chooses_worse(random: np.random.Generator, documents: int) -> bool:
    """Return whether the chosen variant is worse than the unchanged vectors on new queries."""
    corpus = draw_corpus(random)
    task = _draw_task(random, corpus, documents)
    decision = decide(task, VARIANTS)
    return decision.chosen != BASELINE and _true_difference(random, task, decision.chosen, BASELINE) < 0


def covers_smallest(random: np.random.Generator, documents: int) -> bool:
    """Return whether the interval of the smallest minus the chosen variant covers their difference on new queries."""
    task = _draw_task(random, draw_corpus(random), documents)
    decision = decide(task, VARIANTS, tolerance=0.05)
    interval = decision.smallest_difference
    return interval.low <= _true_difference(random, task, decision.smallest, decision.chosen) <= interval.high


def finds_gain(random: np.random.Generator, documents: int, scale: float) -> bool:
    """Return whether a change is chosen if one dimension is ``scale`` times as wide as the others."""
    corpus = random.standard_normal((DOCUMENTS, DIMENSIONS)).astype(np.float32)
    queries, relevant = draw_queries(random, corpus, documents, 1)
    corpus[:, 0] *= scale
    queries[:, 0] *= scale
    truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], [str(row) for row in range(DOCUMENTS)])
    return decide(JudgingTask(corpus, truth, seed=int(random.integers(2**31))), VARIANTS).chosen != BASELINE


def _true_difference(random: np.random.Generator, task: JudgingTask, first: int, second: int) -> float:
    fresh_queries, relevant = draw_queries(random, task.corpus, N_FRESH, 1)
    scores = [_score(task, VARIANTS[index], fresh_queries, relevant) for index in (first, second)]
    return scores[0] - scores[1]


def covers(random: np.random.Generator, documents: int, size: int, *, smallest: bool = False) -> bool:
    """Return whether the interval of the chosen or the smallest variant covers its score on new queries."""
    corpus = draw_corpus(random)
    task = _draw_task(random, corpus, documents, size)
    decision = decide(task, VARIANTS)
    result = decision.variants[decision.smallest if smallest else decision.chosen]
    fresh_queries, relevant = draw_queries(random, corpus, N_FRESH, size)
    score = _score(task, result.variant, fresh_queries, relevant)
    return result.report.low <= score <= result.report.high


def _score(task: JudgingTask, variant: Variant, queries: Points, relevant: NDArray[np.int64]) -> float:
    variant_map = map_of(task, variant)
    space = StoredSpace(variant_map.apply(task.corpus), variant.storage, task.similarity, task.seed)
    nearest = space.nearest(variant_map.apply(queries), DEPTH, rank_ties([str(row) for row in range(DOCUMENTS)]))
    # nDCG of one relevant document, in closed form.
    return float(((nearest == relevant[:, None]) / np.log2(np.arange(2, DEPTH + 2))).sum(1).mean())


# Typical changes of a query's nDCG when its document changes rank.
CHANGES = (0.1, 0.13, 0.2, 0.37, 0.5, 0.63, 1.0)


def holds_no_difference(random: np.random.Generator, queries: int, changed: float) -> bool:
    """Return whether the interval of a difference covers 0 if a share of the queries changes, up or down by chance."""
    is_changed = random.random(queries) < changed
    changes = np.where(is_changed, random.choice([-1, 1], queries) * random.choice(CHANGES, queries), 0.0)
    interval = intervals(np.stack([np.zeros(queries), changes]), np.arange(queries), mean, seed=0)[1]
    return interval.difference_low <= 0 <= interval.difference_high


def cases() -> list[Case]:
    """Return the cases of all claims on tasks."""
    designs = {"300 queries apart": (300, 1), "100 queries apart": (100, 1), "150 groups of 1 to 7 queries": (150, 4)}
    chosen = [
        coverage(f"tasks, {name}, chosen", partial(covers, documents=documents, size=size), SIMULATIONS)
        for name, (documents, size) in designs.items()
    ]
    covers_smallest_score = partial(covers, documents=100, size=1, smallest=True)
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
        Case(f"tasks, {documents} queries, one dimension {scale:g}x as wide", CHOSEN, low, 1.0, SIMULATIONS,
             partial(finds_gain, documents=documents, scale=scale))
        for documents, scale, low in ((100, 20, 0), (300, 10, 0.5), (1500, 6, 0.5))
    ]  # fmt: skip
    return [
        *chosen,
        *without_gain,
        worse,
        smallest,
        *power,
        coverage("tasks, 100 queries apart, smallest", covers_smallest_score, SIMULATIONS),
        *differences,
    ]
