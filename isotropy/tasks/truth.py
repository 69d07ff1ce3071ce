"""Ground truth for judging vectors: queries with relevant documents, scored pairs, labels, or exact search."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog import TASKS, Similarity, TruthKind
from isotropy.tasks.bootstrap import Numbers, Statistic, mean, spearman_with
from isotropy.tasks.parts import Codes, TaskPart, groups_of
from isotropy.tasks.search import Floats, Indices, RetrievalCounts, count_retrievals, nearest, prepare, rank_ties
from isotropy.tasks.storage import StoredSpace

DEPTH = 10  # Neighbors used by ranking metrics, label votes and compression
# trec_eval's names of ranking metrics, all over the first ten documents.
TREC_NAMES = {"ndcg@10": "ndcg_cut_10", "recall@10": "recall_10", "mrr@10": "recip_rank", "overlap@10": "recall_10"}


@dataclass(frozen=True, eq=False)
class Truth(ABC):
    """Ground truth. Its units are queries, pairs or labeled rows."""

    KIND: ClassVar[TruthKind]

    @property
    def kind(self) -> TruthKind:
        return self.KIND

    @property
    def metrics(self) -> tuple[str, ...]:
        return TASKS[self.kind].metrics

    @property
    def units(self) -> str:
        return TASKS[self.kind].units

    @abstractmethod
    def group_codes(self, corpus: NDArray[Any]) -> Codes:
        """Return the group of each unit, int64 [m]; without named groups, exact copies of vectors share one."""

    @property
    def query_vectors(self) -> NDArray[Any] | None:
        return None

    @property
    def uses_search(self) -> bool:
        """Whether units are judged by their nearest rows."""
        return True

    def neighbors(self, space: StoredSpace, queries: Floats | None, parts: Codes) -> Indices | None:
        """Return the neighbors of choose and report units, int64 [j, k], or None if nothing is searched."""
        return None

    def retrieval_counts(self, neighbors: Indices | None) -> RetrievalCounts | None:
        """Return how often queries retrieve each row of the corpus, or None without queries."""
        return None

    @abstractmethod
    def values(self, space: StoredSpace, neighbors: Indices | None, metric: str, parts: Codes) -> Numbers:
        """Return the score of each choose and report unit, or of pairs the similarity to correlate, float64 [j]."""

    def statistic(self, is_judged: NDArray[np.bool_]) -> Statistic:
        """Return the function that computes the metric from the values of the units in a mask [m]."""
        return mean

    def trivial_score(self, metric: str, parts: Codes) -> float:
        """Return the expected score, on the choose part, of an answer that ignores the vectors."""
        return 0.0


@dataclass(frozen=True, eq=False)
class QueryTruth(Truth):
    """Queries, and the rows of the corpus that are relevant to each."""

    vectors: NDArray[Any]  # [m, d]
    relevant: Sequence[Mapping[int, int]]  # [m] grades above 0 by row of the corpus, at least one per query
    ids: Sequence[str]  # Ids of the corpus rows, which break ties
    groups: Codes | None = None  # [m]; None: see ``group_codes``
    compression: bool = False  # Whether exact search defines the relevant rows

    @property
    def kind(self) -> TruthKind:
        return TruthKind.COMPRESSION if self.compression else TruthKind.QUERIES

    def group_codes(self, corpus: NDArray[Any]) -> Codes:
        """Return the group of each query: the given one, or one that links queries that are equal or share a document.

        Equal documents count as shared.
        """
        if self.groups is not None:
            return self.groups
        document_numbers = _number_rows(corpus, (row for rows in self.relevant for row in rows))
        return groups_of(
            [
                [("query", query_number), *(document_numbers[row] for row in grades)]
                for query_number, grades in zip(number_vectors(self.vectors), self.relevant, strict=True)
            ]
        )

    @property
    def query_vectors(self) -> NDArray[Any]:
        return self.vectors

    @cached_property
    def tie_ranks(self) -> Indices:
        return rank_ties(self.ids)

    def neighbors(self, space: StoredSpace, queries: Floats | None, parts: Codes) -> Indices | None:
        return None if queries is None else space.nearest(queries[parts != TaskPart.FIT], DEPTH, self.tie_ranks)

    def retrieval_counts(self, neighbors: Indices | None) -> RetrievalCounts | None:
        """Return how often queries retrieve each row; None without neighbors, and for compression."""
        return None if neighbors is None or self.compression else count_retrievals(neighbors, self.ids)

    def trivial_score(self, metric: str, parts: Codes) -> float:
        """Return the expected score of random rows, as if each rank drew from all rows anew."""
        ranks, scores = np.arange(1, DEPTH + 1), []
        discounts = 1 / np.log2(ranks + 1)
        for query in (parts == TaskPart.CHOOSE).nonzero()[0]:
            grades = np.sort(list(self.relevant[query].values()))[::-1]
            share = len(grades) / len(self.ids)
            if metric == "mrr@10":
                scores.append((share * (1 - share) ** (ranks - 1) / ranks).sum())
            elif metric == "ndcg@10":
                best = grades[:DEPTH] @ discounts[: len(grades)]
                scores.append(grades.sum() / len(self.ids) * discounts.sum() / best)
            else:
                scores.append(DEPTH / len(self.ids))
        return min(1.0, float(np.mean(scores)))

    def values(self, space: StoredSpace, neighbors: Indices | None, metric: str, parts: Codes) -> Numbers:
        judged_queries = (parts != TaskPart.FIT).nonzero()[0]
        return ranking_metric([self.relevant[query] for query in judged_queries], neighbors, metric)


def ranking_metric(relevant: Sequence[Mapping[int, int]], ranked: Indices | None, metric: str) -> Numbers:
    """Return trec_eval's metric for each query, float64 [m], of ranked rows [m, k], best first."""
    import pytrec_eval  # noqa: PLC0415 - only in the extra "decide"

    if ranked is None:
        raise ValueError(f"Expected the rows that were found for {metric}, got none.")
    score_name = TREC_NAMES[metric]
    relevance = {str(query): {str(row): grade for row, grade in rows.items()} for query, rows in enumerate(relevant)}
    run = {
        str(query): {str(row): float(-position) for position, row in enumerate(rows.tolist())}
        for query, rows in enumerate(ranked)
    }
    # pytrec_eval is asked for "ndcg_cut.10", and answers "ndcg_cut_10".
    requested_name = {"ndcg_cut_10": "ndcg_cut.10", "recall_10": "recall.10"}.get(score_name, score_name)
    scores = pytrec_eval.RelevanceEvaluator(relevance, {requested_name}).evaluate(run)
    return np.array([scores[str(query)][score_name] for query in range(len(relevant))])


def exact_neighbors(
    corpus: NDArray[Any],
    queries: NDArray[Any],
    ids: Sequence[str],
    similarity: Similarity,
    groups: Codes | None = None,
) -> QueryTruth:
    """Return the truth for compression: the ten exact neighbors of each query; equal queries share a group."""
    neighbors = nearest(prepare(queries, similarity), prepare(corpus, similarity), DEPTH, similarity, rank_ties(ids))
    relevant = [dict.fromkeys(rows.tolist(), 1) for rows in neighbors]
    codes = number_vectors(queries) if groups is None else groups
    return QueryTruth(queries, relevant, ids, codes, compression=True)


@dataclass(frozen=True, eq=False)
class PairTruth(Truth):
    """Pairs of rows of the corpus with similarity scores."""

    rows: Indices  # [m, 2]
    scores: Numbers  # [m], not all equal
    groups: Codes | None = None  # [m]; None: pairs that share a row, or an equal one, are one group

    KIND = TruthKind.PAIRS

    def group_codes(self, corpus: NDArray[Any]) -> Codes:
        if self.groups is not None:
            return self.groups
        row_numbers = _number_rows(corpus, self.rows.ravel().tolist())
        return groups_of([(row_numbers[first], row_numbers[second]) for first, second in self.rows.tolist()])

    @property
    def uses_search(self) -> bool:
        return False

    def values(self, space: StoredSpace, neighbors: Indices | None, metric: str, parts: Codes) -> Numbers:
        return space.similarities(self.rows[parts != TaskPart.FIT])

    def statistic(self, is_judged: NDArray[np.bool_]) -> Statistic:
        return spearman_with(self.scores[is_judged])


@dataclass(frozen=True, eq=False)
class LabelTruth(Truth):
    """Class labels of rows of the corpus. The fit part trains a classifier for the other parts."""

    rows: Indices  # [m], the labeled rows
    codes: Codes  # [m], their classes, at least two
    ids: Sequence[str]  # Ids of the corpus rows, which break ties
    groups: Codes | None = None  # [m]; None: each row with its exact copies

    KIND = TruthKind.LABELS

    def group_codes(self, corpus: NDArray[Any]) -> Codes:
        return number_vectors(corpus[self.rows]) if self.groups is None else self.groups

    @cached_property
    def tie_ranks(self) -> Indices:
        return rank_ties(self.ids)

    def neighbors(self, space: StoredSpace, queries: Floats | None, parts: Codes) -> Indices | None:
        judged_rows = space.rows[self.rows[parts != TaskPart.FIT]]
        return space.nearest(judged_rows, DEPTH, self.tie_ranks, self.rows[parts == TaskPart.FIT])

    def values(self, space: StoredSpace, neighbors: Indices | None, metric: str, parts: Codes) -> Numbers:
        """Return 1 for each correctly classified row, else 0."""
        is_fit = parts == TaskPart.FIT
        if metric == "probe_accuracy":
            from sklearn.linear_model import RidgeClassifierCV  # noqa: PLC0415 - only in the extra "decide"

            x, query_rows = (space.decoded_rows[self.rows[mask]] for mask in (is_fit, ~is_fit))
            center = x.mean(0, dtype=np.float64)
            # Divide all dimensions by the same factor: the penalties then do not depend on scale, and the shape stays.
            size = float(np.sqrt(np.square(x - center).sum(1).mean())) or 1.0
            probe = RidgeClassifierCV(alphas=np.logspace(-3, 3, 13)).fit((x - center) / size, self.codes[is_fit])
            predicted = np.asarray(probe.predict((query_rows - center) / size))
        else:
            # The majority class of the neighbors; ties go to the nearest. No more vote than nine rows in ten have of
            # their class: others would be of other classes, however well these are separated.
            if neighbors is None:
                raise ValueError("Expected the neighbors that vote, got none.")
            class_sizes = np.bincount(self.codes[is_fit], minlength=self.codes.max() + 1)[self.codes[~is_fit]]
            n_voters = max(1, int(np.quantile(class_sizes, 0.1, method="lower")))
            class_by_row = np.full(len(self.ids), -1)
            class_by_row[self.rows] = self.codes
            voters = class_by_row[neighbors[:, :n_voters]]
            votes = (voters[:, :, None] == voters[:, None, :]).sum(2)
            predicted = np.take_along_axis(voters, votes.argmax(1)[:, None], axis=1)[:, 0]
        correct: Numbers = (predicted == self.codes[~is_fit]).astype(np.float64)
        return correct

    def trivial_score(self, metric: str, parts: Codes) -> float:
        majority = np.bincount(self.codes[parts == TaskPart.FIT]).argmax()
        return float((self.codes[parts == TaskPart.CHOOSE] == majority).mean())

    def sample(self, corpus: NDArray[Any], count: int, seed: int) -> tuple[NDArray[Any], "LabelTruth"]:
        """Return ``count`` random labeled rows and their truth; if no more are labeled, ``corpus`` and this truth."""
        if count >= len(self.rows):
            return corpus, self
        drawn = np.sort(np.random.default_rng(seed).permutation(len(self.rows))[:count])
        rows = self.rows[drawn]
        groups = None if self.groups is None else self.groups[drawn]
        return corpus[rows], LabelTruth(np.arange(count), self.codes[drawn], [self.ids[row] for row in rows], groups)


def number_vectors(x: NDArray[Any]) -> Codes:
    """Number the distinct vectors of x [n, d] by first appearance; return each row's number, int64 [n]. -0.0 is 0.0."""
    row_bytes = np.ascontiguousarray(x + 0.0).view(np.dtype((np.void, x.dtype.itemsize * x.shape[1])))
    _, first_rows, inverse = np.unique(row_bytes.ravel(), return_index=True, return_inverse=True)
    first_equal_rows = first_rows[inverse]
    return np.unique(first_equal_rows, return_inverse=True)[1].astype(np.int64)


def _number_rows(corpus: NDArray[Any], rows: Iterable[int]) -> dict[int, int]:
    """Number ``rows`` of the corpus; equal rows share a number."""
    indices = sorted(set(rows))
    return dict(zip(indices, number_vectors(corpus[indices]).tolist(), strict=True))
