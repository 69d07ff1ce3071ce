"""Pairs of vectors that match or not, drawn from a ground truth so that each group of dependent pairs counts once."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog import Similarity
from isotropy.catalog.calibration import PairSource
from isotropy.tasks.bootstrap import Numbers
from isotropy.tasks.maps import Map
from isotropy.tasks.parts import Codes, TaskPart, split
from isotropy.tasks.search import Indices
from isotropy.tasks.truth import LabelTruth, PairTruth, QueryTruth, Truth

FEWEST_PAIRS = 50
CUTOFF_PARTS = (TaskPart.FIT, TaskPart.CHOOSE, TaskPart.CHOOSE, TaskPart.CHOOSE, TaskPart.REPORT)
"""Parts of every five groups. Three of them set cutoffs, because cutoffs need many labels."""
MAX_GROUPS = 10_000  # Maximum groups that are used, drawn at random
PAIRING_ROUNDS = 10  # Attempts to pair rows with a row of another label
PERMUTED_PAIRS, PERMUTATIONS = 10_000, 100  # Maximum number of permuted pairs, and of permutations that give them

Booleans = NDArray[np.bool_]


class MatchScoreError(ValueError):
    """The minimum score of a match is needed."""


class _PairPool(NamedTuple):
    """All labeled pairs, before thinning; fields as in ``LabeledPairs``."""

    rows: Indices
    is_match: Booleans
    groups: Codes
    parts: Codes
    matches: str  # What the matches are, in words; likewise for the next
    non_matches: str
    fit_points: NDArray[Any]


@dataclass(frozen=True, eq=False)
class LabeledPairs:
    """At most one match and one non-match of each group, drawn at random."""

    first_vectors: NDArray[Any]  # [l, d], vectors of the first sides
    second_vectors: NDArray[Any]  # [r, d], vectors of the second sides
    rows: Indices  # [m, 2]: a row of `first_vectors` and a row of `second_vectors`
    is_match: Booleans  # [m]
    is_drawn: Booleans  # [m]: one pair per group, drawn from all pairs of the group
    groups: Codes  # [m]
    parts: Codes  # [m]
    fit_points: NDArray[Any]  # [f, d], what maps may learn from: no vector of a pair that chooses or reports
    source: PairSource

    def permuted_rows(self, seed: int) -> Indices:
        """Return rows [k, 2] of random pairs outside the fit part, whose sides are from different groups."""
        generator, indices = np.random.default_rng(seed), (self.parts != TaskPart.FIT).nonzero()[0]
        permuted: list[Indices] = []
        for _ in range(min(PERMUTATIONS, -(-2 * PERMUTED_PAIRS // len(indices)))):
            partners = generator.permutation(indices)
            differs = self.groups[indices] != self.groups[partners]
            permuted.append(np.stack([self.rows[indices, 0], self.rows[partners, 1]], axis=1)[differs])
        return np.concatenate(permuted)[:PERMUTED_PAIRS]

    def compare(self, mapping: Map, rows: Indices) -> Numbers:
        """Return the similarity [k] of pairs of rows [k, 2] after a map; for Euclidean distance, its negative."""
        first, second = mapping.apply(self.first_vectors)[rows[:, 0]], mapping.apply(self.second_vectors)[rows[:, 1]]
        if mapping.similarity is Similarity.EUCLIDEAN:
            return np.asarray(-np.linalg.norm(first.astype(np.float64) - second, axis=1))
        return np.asarray(np.einsum("md,md->m", first, second, dtype=np.float64))


def label_pairs(corpus: NDArray[Any], truth: Truth, seed: int, match: float | None = None) -> LabeledPairs:
    """Return pairs of a ground truth; ``match`` is the minimum score of a match, for pairs with scores only.

    If it is None, scores must be 0 and 1; MatchScoreError is raised for others. Raises ValueError for fewer than
    ``FEWEST_PAIRS`` pairs, for too few groups, and if all or no pairs match.
    """
    generator = np.random.default_rng(seed)
    if match is not None and not isinstance(truth, PairTruth):
        raise ValueError("Expected the minimum score of a match only for pairs with scores: leave it out.")
    groups = truth.group_codes(corpus)
    parts = split(groups, seed, CUTOFF_PARTS)
    match truth:
        case PairTruth():
            match = _default_match_score(truth) if match is None else match
            pool = _pool_scored_pairs(corpus, truth, groups, parts, match)
        case QueryTruth(compression=False):
            pool = _pool_query_pairs(corpus, truth, groups, parts, generator)
        case LabelTruth():
            pool = _pool_label_pairs(corpus, truth, groups, parts, generator)
        case _:
            raise ValueError("Expected pairs, relevant documents or labels to set a cutoff by, got none: add some.")
    n_labeled, n_matches = len(pool.is_match), int(pool.is_match.sum())
    if n_labeled < FEWEST_PAIRS:
        raise ValueError(f"Expected at least {FEWEST_PAIRS} labeled pairs, got {n_labeled}: label more.")
    if n_matches in (0, n_labeled):
        share = "No pair matches" if n_matches == 0 else f"All {n_labeled:,} pairs match"
        raise ValueError(f"{share} ({pool.matches}): a cutoff needs matches and non-matches.")
    order = generator.permutation(n_labeled)
    is_drawn = np.zeros(n_labeled, bool)
    is_drawn[order[np.unique(pool.groups[order], return_index=True)[1]]] = True  # a random pair of each group
    # A random match and a random non-match of each group.
    drawn = order[np.unique(2 * pool.groups[order] + pool.is_match[order], return_index=True)[1]]
    used_groups = generator.permutation(np.unique(pool.groups))[:MAX_GROUPS]
    thinned = np.sort(drawn[np.isin(pool.groups[drawn], used_groups)])
    rows, is_match = pool.rows[thinned], pool.is_match[thinned]
    first_indices, first_rows = np.unique(rows[:, 0], return_inverse=True)
    second_indices, second_rows = np.unique(rows[:, 1], return_inverse=True)
    independent_counts = int(is_match.sum()), int((~is_match).sum())
    documents = len(corpus) if isinstance(truth, QueryTruth) else None
    return LabeledPairs(
        first_vectors=(truth.vectors if isinstance(truth, QueryTruth) else corpus)[first_indices],
        second_vectors=corpus[second_indices],
        rows=np.stack([first_rows, second_rows], axis=1),
        is_match=is_match,
        is_drawn=is_drawn[thinned],
        groups=pool.groups[thinned],
        parts=pool.parts[thinned],
        fit_points=pool.fit_points,
        source=PairSource(pool.matches, pool.non_matches, n_labeled, n_matches, *independent_counts, match, documents),
    )


def _default_match_score(truth: PairTruth) -> float:
    if np.isin(truth.scores, (0, 1)).all():
        return 1.0
    raise MatchScoreError(
        f"Scores run from {truth.scores.min():g} to {truth.scores.max():g}. Set the minimum score of a match."
    )


def _pool_scored_pairs(corpus: NDArray[Any], truth: PairTruth, groups: Codes, parts: Codes, match: float) -> _PairPool:
    matches = f"pairs with a score of at least {match:g}, where scores run from {truth.scores.min():g} to "
    matches += f"{truth.scores.max():g}"
    fit_points = _without_rows(corpus, truth.rows[parts != TaskPart.FIT])
    return _PairPool(truth.rows, truth.scores >= match, groups, parts, matches, "all other pairs", fit_points)


def _pool_query_pairs(
    corpus: NDArray[Any], truth: QueryTruth, groups: Codes, parts: Codes, generator: np.random.Generator
) -> _PairPool:
    rows, is_match = [], []
    for query, relevant in enumerate(truth.relevant):
        rows += [(query, document) for document in relevant]
        is_match += [True] * len(relevant)
        for document in generator.integers(0, len(corpus), 100):  # a copy of a relevant document is relevant too
            if not (corpus[list(relevant)] == corpus[document]).all(1).any():
                rows.append((query, int(document)))
                is_match.append(False)
                break
    pairs = np.array(rows, np.int64)
    fit_queries = truth.vectors[parts == TaskPart.FIT].astype(corpus.dtype)
    queries, fit_points = pairs[:, 0], np.concatenate([corpus, fit_queries])
    matches, non_matches = "queries with a relevant document", "queries with a random other document"
    return _PairPool(pairs, np.array(is_match), groups[queries], parts[queries], matches, non_matches, fit_points)


def _pool_label_pairs(
    corpus: NDArray[Any], truth: LabelTruth, groups: Codes, parts: Codes, generator: np.random.Generator
) -> _PairPool:
    """Pair labeled rows, one of each group and each once: half with a row of their label, half with one of another."""
    shuffled = generator.permutation(len(truth.rows))
    independent = shuffled[np.unique(groups[shuffled], return_index=True)[1]]
    pairs, is_match = [], []
    for part in TaskPart:
        units = generator.permutation(independent[parts[independent] == part])
        same, different = np.array_split(units, 2)
        for label in np.unique(truth.codes[same]):
            label_units = same[truth.codes[same] == label]
            pairs.append(label_units[: len(label_units) // 2 * 2].reshape(-1, 2))
            is_match += [True] * len(pairs[-1])
        for _ in range(PAIRING_ROUNDS):
            drawn = generator.permutation(different)[: len(different) // 2 * 2].reshape(-1, 2)
            differs = truth.codes[drawn[:, 0]] != truth.codes[drawn[:, 1]]
            pairs.append(drawn[differs])
            is_match += [False] * len(pairs[-1])
            different = np.setdiff1d(different, pairs[-1])
    units = np.concatenate(pairs)
    matches, non_matches = "rows with a random row of their label", "random pairs of rows with different labels"
    fit_points = _without_rows(corpus, truth.rows[parts != TaskPart.FIT])
    pair_groups, pair_parts = np.arange(len(units)), parts[units[:, 0]]  # each pair is a group
    return _PairPool(truth.rows[units], np.array(is_match), pair_groups, pair_parts, matches, non_matches, fit_points)


def _without_rows(corpus: NDArray[Any], rows: Indices) -> NDArray[Any]:
    return np.delete(corpus, np.unique(rows), axis=0)
