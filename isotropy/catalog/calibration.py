"""The record of a calibration: from which similarity on a pair is a match, with guaranteed error rates."""

from dataclasses import dataclass
from enum import StrEnum

from isotropy.catalog.tasks import Similarity, TruthKind

PROMISES = (0.01, 0.05, 0.1)  # Error rates that a cutoff may promise


class PromiseKind(StrEnum):
    """Errors of a cutoff: a match that is missed, or a non-match that is taken for a match."""

    MISS = "miss"
    FALSE_MATCH = "false_match"


USUAL_PROMISES = {PromiseKind.MISS: 0.05, PromiseKind.FALSE_MATCH: 0.01}


@dataclass(frozen=True)
class PairShare:
    """A share of pairs with its 95% interval (Clopper and Pearson 1934)."""

    value: float
    low: float
    high: float
    pairs: int  # Pairs that the share is of


@dataclass(frozen=True)
class Cutoff:
    """A similarity at and above which pairs count as matches, and its errors on held-out pairs."""

    kind: PromiseKind
    promise: float
    cutoff: float | None  # None if the promise takes more labels; if Euclidean, the largest distance of a match
    labels: int  # Independent pairs that set it
    labels_needed: int  # Minimum of `labels` for the promise
    misses: PairShare | None
    false_matches: PairShare | None
    precision: PairShare | None = None  # Share of matches among the pairs taken; only of scored pairs, mixed as given
    sentence: str = ""
    code: str | None = None  # NumPy that applies map and cutoff


@dataclass(frozen=True)
class CurvePoint:
    """P(match) at a similarity, with a 95% band."""

    similarity: float
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class RandomSimilarity:
    """Similarities of pairs whose right sides were permuted."""

    pairs: int
    mean: float
    sd: float
    quantiles: dict[str, float]


@dataclass(frozen=True)
class PairHistogram:
    """Shares of matches, non-matches and permuted pairs in each bin of similarity; there is one edge more than bins."""

    edges: list[float]
    matches: list[float]
    non_matches: list[float]
    permuted: list[float]


@dataclass(frozen=True)
class PairSpace:
    """Vectors as they are, or after a remedy, with P(match) by similarity and the cutoffs."""

    name: str
    confidence: float  # Of each promise; remedies share the risk, as any could be chosen
    curve: list[CurvePoint]
    cutoffs: list[Cutoff]
    histogram: PairHistogram


@dataclass(frozen=True)
class FindingRate:
    """The share of matches found at one rate of false matches, on the choose part and on the held-out report part."""

    choose: float
    gain: float  # On the choose part; its interval holds for all remedies at once
    gain_low: float
    gain_high: float
    report: float
    report_low: float
    report_high: float
    difference: float  # Held out
    difference_low: float
    difference_high: float
    false_matches: float  # Held out, at the cutoff of the choose part


@dataclass(frozen=True)
class CalibratedVariant:
    """A remedy, the similarity of random pairs after it, and how many matches it finds."""

    name: str
    random: RandomSimilarity
    finding: FindingRate | None  # None if there are too few labels


@dataclass(frozen=True)
class PairSource:
    """Where pairs come from, and how many there are."""

    matches: str
    non_matches: str
    labeled: int
    labeled_matches: int
    independent_matches: int  # At most one of each group
    independent_non_matches: int
    match: float | None = None  # Minimum score of a match, for pairs with scores
    documents: int | None = None  # Documents of the corpus, for queries


@dataclass(frozen=True)
class Calibration:
    """Cutoffs by a task, of vectors as they are, and after the remedy that clearly finds the most matches."""

    task: TruthKind
    similarity: Similarity
    pairs: PairSource
    false_match_rate: float | None  # At which remedies are compared
    variants: list[CalibratedVariant]  # The first is the vectors as they are
    chosen: int  # Index of the chosen remedy in `variants`, 0 for none
    spaces: list[PairSpace]  # As they are, then the chosen remedy, if there is one
    comparison: str
    random: str

    def find_cutoff(
        self, kind: PromiseKind = PromiseKind.MISS, promise: float = USUAL_PROMISES[PromiseKind.MISS]
    ) -> Cutoff:
        """Return the cutoff of a promise, after the chosen remedy if there is one."""
        cutoffs = self.spaces[-1].cutoffs
        return next(cutoff for cutoff in cutoffs if (cutoff.kind, cutoff.promise) == (kind, promise))

    def conclude(self, kind: PromiseKind, promise: float) -> str:
        """Return the advice on a promise, what a remedy gains, and what random pairs look like, in sentences."""
        advice = [self.find_cutoff(kind, promise).sentence, self.comparison]
        return " ".join([*(advice[::-1] if self.chosen else advice), self.random])
