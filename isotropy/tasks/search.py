"""Exact nearest neighbors of queries among rows, with ties ranked as in trec_eval, and how often rows are retrieved."""

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.catalog import Similarity
from isotropy.hubness import find_largest_hubs

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]

SPARE_CANDIDATES = 22  # Extra neighbors searched, so that few queries with ties need a second search
WIDENING_FACTOR = 8  # How many times wider the next search is if ties reach beyond the last neighbor
ROUNDINGS = 8  # Maximum error of a float32 product in d dimensions, in roundings times the square root of d
NUMBERS_PER_BLOCK = 2**17  # Numbers normalized at once: 1 MiB in float64, which fits a core's cache
MAX_MAGNITUDE = 1e12  # Of the largest number and its inverse, if vectors are not normalized
BLOCK = 2**22  # Numbers of candidates that are held at once: 32 MiB in float64

# Takes indices of queries and a number of candidates k; returns the distances and indices of the k nearest rows.
_Search = Callable[[NDArray[Any], int], tuple[NDArray[Any], Indices]]


def require_searchable(name: str, x: NDArray[Any] | None, similarity: Similarity) -> None:
    """Raise ValueError for NaN or infinity, and if squares of numbers might leave the range of float32."""
    largest = 0.0 if x is None else float(np.maximum(x.max(initial=0), -x.min(initial=0)))
    if not isfinite(largest):
        raise ValueError(f"Expected finite vectors, got NaN or infinity among the {name}: leave those rows out.")
    if similarity is not Similarity.COSINE and largest and not 1 / MAX_MAGNITUDE <= largest <= MAX_MAGNITUDE:
        raise ValueError(
            f"Expected a largest number from {1 / MAX_MAGNITUDE:g} to {MAX_MAGNITUDE:g}, got {largest:.3g} among the "
            f"{name}: divide all vectors by it, which changes no ranking."
        )


def prepare(x: NDArray[Any], similarity: Similarity) -> Floats:
    """Return vectors [n, d] in float32, normalized for the cosine; zero vectors stay zero."""
    if similarity is not Similarity.COSINE:
        return np.ascontiguousarray(x, np.float32)
    directions = np.zeros(x.shape, np.float32)
    step = max(1, NUMBERS_PER_BLOCK // x.shape[1])
    for start in range(0, len(x), step):
        block = x[start : start + step].astype(np.float64)
        lengths = np.linalg.norm(block, axis=1, keepdims=True)
        np.divide(block, lengths, out=directions[start : start + step], where=lengths > 0)
    return directions


def rank_ties(ids: Sequence[str]) -> Indices:
    """Return the rank of each row [n] that breaks ties: as in trec_eval, the last id in byte order comes first."""
    order = sorted(range(len(ids)), key=lambda row: ids[row], reverse=True)
    tie_ranks = np.empty(len(ids), np.int64)
    tie_ranks[order] = np.arange(len(ids))
    return tie_ranks


def nearest(queries: Floats, rows: Floats, k: int, similarity: Similarity, tie_ranks: Indices) -> Indices:
    """Return the rows nearest to each of prepared queries [m, d] among rows [n, d], best first, int64 [m, min(k, n)].

    faiss finds candidates by float32 products. They are compared in float64, rounded to float32 as in trec_eval, and
    ties are broken by ``tie_ranks`` [n]. Queries whose ties may reach beyond their candidates get more candidates.
    """
    import faiss  # noqa: PLC0415 - of the extra "decide"

    is_euclidean = similarity is Similarity.EUCLIDEAN
    metric = faiss.METRIC_L2 if is_euclidean else faiss.METRIC_INNER_PRODUCT
    lengths, row_lengths = (np.sqrt(np.einsum("nd,nd->n", x, x)) for x in (queries, rows))
    longest = float(row_lengths.max(initial=0))
    size = (lengths + longest) ** 2 if is_euclidean else lengths * longest
    slack = 2 * ROUNDINGS * rows.shape[1] ** 0.5 * (float(np.finfo(np.float32).eps) / 2) * size

    def search(query_indices: NDArray[Any], width: int) -> tuple[NDArray[Any], Indices]:
        products, candidates = faiss.knn(np.ascontiguousarray(queries[query_indices]), rows, width, metric=metric)
        return (products if is_euclidean else -products), candidates

    best = np.empty((len(queries), min(k, len(rows))), np.int64)
    for query_indices, indices in _widen_search(search, len(queries), len(rows), best.shape[1], slack):
        best[query_indices] = search_candidates(indices, queries[query_indices], rows, k, similarity, tie_ranks)
    return best


def search_candidates(
    candidates: Indices, queries: Floats, rows: Floats, k: int, similarity: Similarity, tie_ranks: Indices
) -> Indices:
    """Return the k of each query's candidates [m, w] that are most similar, best first, int64 [m, min(k, w)]."""
    best = np.empty((len(queries), min(k, candidates.shape[1])), np.int64)
    max_candidates = max(1, BLOCK // rows.shape[1])
    step = max(1, max_candidates // candidates.shape[1])
    is_euclidean = similarity is Similarity.EUCLIDEAN
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        q, distance_parts = queries[block].astype(np.float64), []
        # Measure candidates in parts, because a query with many ties has very many candidates.
        for first in range(0, candidates.shape[1], max_candidates):
            x = rows[candidates[block, first : first + max_candidates]].astype(np.float64)
            distances = np.square(x - q[:, None]).sum(2) if is_euclidean else -np.einsum("md,mwd->mw", q, x)
            distance_parts.append(distances.astype(np.float32))
        best[block] = _rank_candidates(np.concatenate(distance_parts, 1), candidates[block], tie_ranks, best.shape[1])
    return best


def nearest_codes(queries: NDArray[np.uint8], codes: NDArray[np.uint8], k: int, tie_ranks: Indices) -> Indices:
    """Return the nearest codes of each query by Hamming distance, int64 [m, min(k, n)], ties by ``tie_ranks`` [n]."""
    import faiss  # noqa: PLC0415

    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    best = np.empty((len(queries), min(k, len(codes))), np.int64)

    n, slack = len(codes), np.zeros(len(queries))
    settled = _widen_search(
        lambda query_indices, width: index.search(np.ascontiguousarray(queries[query_indices]), width),
        len(queries),
        n,
        best.shape[1],
        slack,
    )
    for query_indices, candidates in settled:
        step = max(1, 8 * BLOCK // (candidates.shape[1] * codes.shape[1]))
        for start in range(0, len(query_indices), step):
            block = slice(start, start + step)
            differing = np.bitwise_count(queries[query_indices[block]][:, None] ^ codes[candidates[block]])
            bit_distances = differing.sum(2, dtype=np.int64)
            best[query_indices[block]] = _rank_candidates(bit_distances, candidates[block], tie_ranks, best.shape[1])
    return best


def _widen_search(search: _Search, m: int, n: int, k: int, slack: NDArray[Any]) -> Iterator[tuple[Indices, Indices]]:
    """Search m queries among n rows, with ever more candidates until no other row can tie with the k-th.

    Rows may tie if their distances differ by at most ``slack`` [m]. Yields indices of settled queries, and candidates.
    """
    unsettled, width = np.arange(m), min(k + SPARE_CANDIDATES, n)
    while len(unsettled):
        remaining: list[Indices] = []
        step = max(1, BLOCK // width)
        for query_indices in np.split(unsettled, range(step, len(unsettled), step)):
            distances, candidates = search(query_indices, width)
            is_settled = (
                distances[:, -1] > distances[:, k - 1] + slack[query_indices]
                if width < n
                else np.ones(len(query_indices), bool)
            )
            yield query_indices[is_settled], candidates[is_settled]
            remaining.append(query_indices[~is_settled])
        unsettled, width = np.concatenate(remaining), min(width * WIDENING_FACTOR, n)


def _rank_candidates(distances: NDArray[Any], candidates: Indices, tie_ranks: Indices, k: int) -> Indices:
    order = np.lexsort((tie_ranks[candidates], distances), axis=-1)[:, :k]
    return np.take_along_axis(candidates, order, axis=1)


class RetrievedRow(NamedTuple):
    """A row of the corpus and the number of queries that retrieve it."""

    id: str
    queries: int  # Number of queries that retrieve the row


class RetrievalCounts(NamedTuple):
    """Distribution of retrieved slots over the rows of a corpus."""

    k: int  # Rows that each query retrieves
    queries: int  # Number of queries
    # Third standardized moment of the rows' counts (Radovanović et al. 2010); None if all counts are equal.
    skewness: float | None
    never: float  # Share of rows that no query retrieves; with few queries, most rows of any corpus
    hubs: tuple[RetrievedRow, ...]  # The most retrieved rows, in descending order

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "hubs": [hub._asdict() for hub in self.hubs]}


def count_retrievals(neighbors: Indices, ids: Sequence[str]) -> RetrievalCounts:
    """Count how often queries retrieve each row of a corpus, from neighbors int64 [m, k] and ids [n]."""
    counts = np.bincount(neighbors.ravel(), minlength=len(ids))
    excess = counts - counts.mean()
    variance = float(np.square(excess).mean())
    hubs = find_largest_hubs(torch.from_numpy(counts))
    return RetrievalCounts(
        k=neighbors.shape[1],
        queries=len(neighbors),
        skewness=float((excess**3).mean()) / variance**1.5 if variance else None,
        never=float((counts == 0).mean()),
        hubs=tuple(RetrievedRow(ids[hub.point], hub.occurrences) for hub in hubs),
    )
