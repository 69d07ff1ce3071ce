"""Time `isoscope decide` on 100,000 rows, compared with one exact search of its queries, and print its memory.

Run: python -m benchmarks.decide

If other work shares the cores, set ``CLOCK=cpu THREADS=1`` to compare processor time.
"""

import resource

import faiss
import numpy as np
import torch

from benchmarks._rounds import machine, requested_clock, requested_threads
from isotropy.catalog.tasks import Similarity
from isotropy.tasks.judge import JudgingTask, decide
from isotropy.tasks.search import prepare
from isotropy.tasks.truth import QueryTruth
from isotropy.tasks.variants import default_variants

ROWS, DIMENSIONS, QUERIES = 100_000, 384, 1_000


def draw_clouds() -> tuple[np.ndarray, np.ndarray, list[dict[int, int]]]:
    """Return a corpus with decaying variances, queries, and the grade of each query's only relevant row."""
    random = np.random.default_rng(0)
    scales = 1 / np.sqrt(np.arange(1, DIMENSIONS + 1))
    corpus = 0.2 + random.normal(size=(ROWS, DIMENSIONS)) * scales
    relevant = random.choice(ROWS, QUERIES, replace=False)
    queries = corpus[relevant] + 0.8 * random.normal(size=(QUERIES, DIMENSIONS)) * scales
    return corpus.astype(np.float32), queries.astype(np.float32), [{int(row): 1} for row in relevant]


def main() -> None:
    """Print the seconds of both, their ratio, the slowest variants, and the peak memory."""
    threads, clock = requested_threads(), requested_clock()
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    corpus, queries, relevant = draw_clouds()
    unit_corpus, unit_queries = prepare(corpus, Similarity.COSINE), prepare(queries, Similarity.COSINE)
    start = clock()
    faiss.knn(unit_queries, unit_corpus, 10, metric=faiss.METRIC_INNER_PRODUCT)
    search_seconds = clock() - start
    del unit_corpus, unit_queries

    task = JudgingTask(corpus, QueryTruth(queries, relevant, [str(row) for row in range(ROWS)]))
    variants = default_variants(task.setting)
    ends: list[tuple[float, str]] = []
    start = clock()
    decision = decide(task, variants, progress=lambda result: ends.append((clock(), result.variant.name)))
    decide_seconds = clock() - start
    starts = (start, *(end for end, _ in ends))
    slowest = sorted(((end - start, name) for start, (end, name) in zip(starts, ends, strict=False)), reverse=True)

    print(machine("torch", "faiss-cpu", "numpy"))
    print(f"{ROWS:,} x {DIMENSIONS}, {QUERIES:,} queries, {len(variants)} variants, {threads} threads\n")
    print("| | seconds | ratio |\n|---|---|---|")
    print(f"| one exact search of the queries (faiss) | {search_seconds:.2f} | 1 |")
    print(f"| decide | {decide_seconds:.1f} | {decide_seconds / search_seconds:.0f} |")
    for seconds, name in slowest[:5]:
        print(f"| of it: {name} | {seconds:.1f} | {seconds / search_seconds:.1f} |")
    print(f"\npeak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    print(decision.conclusion)


if __name__ == "__main__":
    main()
