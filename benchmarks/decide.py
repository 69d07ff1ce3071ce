"""`isoscope decide` on 100,000 rows beside one exact search of its queries, and the memory that it takes.

Run: python -m benchmarks.decide

Where other work shares the cores, ``CLOCK=cpu THREADS=1`` compares seconds of the processor.
"""

import resource

import faiss
import numpy as np
import torch

from benchmarks._rounds import clock_asked, machine, threads_asked
from isotropy.catalog.tasks import Similarity
from isotropy.tasks.judge import JudgingTask, decide
from isotropy.tasks.search import prepare
from isotropy.tasks.truth import QueryTruth
from isotropy.tasks.variants import default_variants

ROWS, DIMENSIONS, QUERIES = 100_000, 384, 1_000


def clouds() -> tuple[np.ndarray, np.ndarray, list[dict[int, int]]]:
    """Return a corpus of decaying variances and a mean, and queries near a document of their own."""
    random = np.random.default_rng(0)
    scales = 1 / np.sqrt(np.arange(1, DIMENSIONS + 1))
    corpus = 0.2 + random.normal(size=(ROWS, DIMENSIONS)) * scales
    relevant = random.choice(ROWS, QUERIES, replace=False)
    queries = corpus[relevant] + 0.8 * random.normal(size=(QUERIES, DIMENSIONS)) * scales
    return corpus.astype(np.float32), queries.astype(np.float32), [{int(row): 1} for row in relevant]


def main() -> None:
    """Print the seconds of both, their ratio, the seconds of the slowest variants, and the peak of memory."""
    threads, clock = threads_asked(), clock_asked()
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    corpus, queries, relevant = clouds()
    rows, asked = prepare(corpus, Similarity.COSINE), prepare(queries, Similarity.COSINE)
    began = clock()
    faiss.knn(asked, rows, 10, metric=faiss.METRIC_INNER_PRODUCT)
    searched = clock() - began
    del rows, asked

    task = JudgingTask(corpus, QueryTruth(queries, relevant, [str(row) for row in range(ROWS)]))
    variants = default_variants(task.setting)
    ends: list[tuple[float, str]] = []
    began = clock()
    decision = decide(task, variants, progress=lambda one: ends.append((clock(), one.variant.name)))
    seconds = clock() - began
    begun = (began, *(end for end, _ in ends))
    each = sorted(((end - start, name) for start, (end, name) in zip(begun, ends, strict=False)), reverse=True)

    print(machine("torch", "faiss-cpu", "numpy"))
    print(f"{ROWS:,} x {DIMENSIONS}, {QUERIES:,} queries, {len(variants)} variants, {threads} threads\n")
    print("| | seconds | ratio |\n|---|---|---|")
    print(f"| one exact search of the queries (faiss) | {searched:.2f} | 1 |")
    print(f"| decide | {seconds:.1f} | {seconds / searched:.0f} |")
    for taken, name in each[:5]:
        print(f"| of it: {name} | {taken:.1f} | {taken / searched:.1f} |")
    print(f"\npeak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    print(decision.conclusion)


if __name__ == "__main__":
    main()
