"""Cases of the intervals of ``isoscope upgrade``: two generated models, whose bridge is judged by many new queries."""

from functools import partial

import numpy as np

from benchmarks._calibration import Case, coverage
from benchmarks._calibration_tasks import DIMENSIONS, DOCUMENTS, N_FRESH, Points, draw_corpus, draw_queries
from isotropy.catalog import Similarity
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.search import Indices, prepare
from isotropy.tasks.truth import DEPTH, QueryTruth, exact_neighbors
from isotropy.tasks.upgrade import UpgradeTask, judge_upgrade

SIMULATIONS = 1000
NEW_DIMENSIONS = 12
IDS = [str(row) for row in range(DOCUMENTS)]


def _embed(random: np.random.Generator, old: Points, model: Points, noise: float) -> Points:
    """Return new vectors of texts with old vectors [n, d]: fewer dimensions, other directions and some noise."""
    return (old @ model + noise * random.standard_normal((len(old), model.shape[1]))).astype(np.float32)


def _nearest(queries: Points, rows: Points) -> Indices:
    """Return the ten nearest rows of many queries, best first; vectors without ties need no exact search."""
    q, x = (prepare(points, Similarity.COSINE) for points in (queries, rows))
    products = q @ x.T
    neighbors = np.argpartition(-products, DEPTH, axis=1)[:, :DEPTH]
    order = np.argsort(-np.take_along_axis(products, neighbors, axis=1), axis=1)
    return np.take_along_axis(neighbors, order, axis=1)


def _mean_gain(neighbors: Indices, relevant: Indices) -> float:
    """Return nDCG of one relevant document per query, in closed form."""
    return float(((neighbors == relevant[:, None]) / np.log2(np.arange(2, DEPTH + 2))).sum(1).mean())


def covers(random: np.random.Generator, share: str, documents: int, size: int, noise: float) -> bool:
    """Return whether the interval of a kept share covers the share on new queries for the same corpus and bridge."""
    corpus = draw_corpus(random)
    model = random.standard_normal((DIMENSIONS, NEW_DIMENSIONS)).astype(np.float32)
    new_corpus = _embed(random, corpus, model, noise)
    queries, relevant = draw_queries(random, corpus, documents, size)
    fresh_queries, fresh_relevant = draw_queries(random, corpus, N_FRESH, size)
    new_queries, new_fresh_queries = (_embed(random, q, model, noise) for q in (queries, fresh_queries))
    truth = exact_neighbors(corpus, queries, IDS, Similarity.COSINE)
    if share == "kept_score" or size > 1:
        truth = QueryTruth(queries, [{row: 1} for row in relevant.tolist()], IDS)
    old = JudgingTask(corpus, truth, seed=int(random.integers(2**31)))
    upgrade, bridge = judge_upgrade(
        UpgradeTask(old, new_corpus, new_queries, texts=DOCUMENTS, unsampled_corpus=corpus[:0])
    )
    bridged = _nearest(bridge.apply(new_fresh_queries), corpus)
    exact = _nearest(fresh_queries, corpus) if share == "kept_old" else _nearest(new_fresh_queries, new_corpus)
    if share == "kept_score":
        kept_share = _mean_gain(bridged, fresh_relevant) / _mean_gain(exact, fresh_relevant)
    else:
        kept_share = (exact[:, :, None] == bridged[:, None]).any(2).mean()
    interval = getattr(upgrade, share)
    return bool(interval.low <= kept_share <= interval.high)


def cases() -> list[Case]:
    """Return the cases of what a bridge keeps."""
    designs = {
        "kept of the old, 300 queries, noise 0.5": ("kept_old", 300, 1, 0.5),
        "kept of the old, 100 queries, noise 0.05": ("kept_old", 100, 1, 0.05),
        "kept of the new, 300 queries, noise 0.5": ("kept_new", 300, 1, 0.5),
        "kept of the old, 150 groups of 1 to 7 queries": ("kept_old", 150, 4, 0.5),
        "kept of the score, 300 queries, noise 0.5": ("kept_score", 300, 1, 0.5),
    }
    return [
        coverage(
            f"upgrade, {name}",
            partial(covers, share=share, documents=documents, size=size, noise=noise),
            SIMULATIONS,
            conservative=share == "kept_score",
        )
        for name, (share, documents, size, noise) in designs.items()
    ]
