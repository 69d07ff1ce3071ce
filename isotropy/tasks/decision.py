"""The decision of a task: the scores of all variants, the one to take, the smallest about as good, and a conclusion."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from isotropy.catalog import METRICS, TASKS, Similarity, TruthKind, format_percent, format_signed
from isotropy.tasks.bootstrap import Interval
from isotropy.tasks.gains import Gain
from isotropy.tasks.search import RetrievalCounts
from isotropy.tasks.storage import VectorStorage
from isotropy.tasks.variants import AS_IT_IS, Variant

BASELINE = 0  # Index of the variant that others are compared with
ACCURACY_SENTENCES = {
    "knn_accuracy": "the nearest neighbors of a row predict its label in {} of cases",
    "probe_accuracy": "a linear probe predicts the label of a row in {} of cases",
}
"""Metrics that are shares of rows, in words."""


@dataclass(frozen=True)
class VariantScores:
    """A variant and its scores."""

    variant: Variant
    bytes: int  # Bytes per vector that a search keeps in memory
    isoscore: float | None
    """Bias-corrected IsoScore of the corpus after post-processing and reduction; None where it is undefined."""
    choose_score: float  # On the choose part
    gain: Gain  # Over the baseline, on the choose part
    report: Interval
    recall_of_exact: float | None
    """Share of the ten nearest in float32 that a search of the stored vectors finds; None if nothing is searched."""
    retrieved: RetrievalCounts | None = None  # How often choose and report queries retrieve each row

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.variant.name,
            "method": self.variant.method,
            "parameters": dict(self.variant.parameters),
            "dimensions": str(self.variant.dimensions),
            "storage": self.variant.storage.value,
            "bytes": self.bytes,
            "isoscore": self.isoscore,
            "choose": {
                "value": self.choose_score,
                "difference": self.gain.difference,
                "difference_low": self.gain.low,
                "difference_high": self.gain.high,
            },
            "report": self.report._asdict(),
            "recall_of_exact": self.recall_of_exact,
        }


@dataclass(frozen=True)
class VariantChoice:
    """The recommended variants, as positions in the list of variants."""

    chosen: int
    """The best whose gain is clear, in float32 if that form's gain is clear too; the baseline where no gain is."""
    smallest: int
    """The variant with the fewest bytes whose score is within the tolerance of the chosen one; else the chosen one."""


def choose_variants(
    variants: Sequence[Variant],
    scores: Sequence[float],
    has_clear_gain: Sequence[bool],
    sizes: Sequence[int],
    tolerance: float,
) -> VariantChoice:
    """Choose by scores and clear gains, both on the choose part, and by ``sizes`` in bytes per vector.

    The best variant's float32 form is chosen if its gain is clear, too: saving bytes is left to ``smallest``.
    """
    indices = range(len(scores))
    chosen = min((i for i in indices if has_clear_gain[i] or i == BASELINE), key=lambda i: (-scores[i], sizes[i], i))
    in_float32 = replace(variants[chosen], storage=VectorStorage.FLOAT32)
    chosen = next((i for i in indices if variants[i] == in_float32 and has_clear_gain[i]), chosen)
    close_indices = [i for i in indices if scores[i] >= scores[chosen] - tolerance and sizes[i] < sizes[chosen]]
    return VariantChoice(chosen, min([*close_indices, chosen], key=lambda i: (sizes[i], -scores[i], i)))


@dataclass(frozen=True)
class Decision:
    """All variants of a task and the choice among them."""

    task: TruthKind
    metric: str
    similarity: Similarity
    n: int
    d: int
    fit_units: int  # Units of the fit part; likewise for the next two
    choose_units: int
    report_units: int
    variants: tuple[VariantScores, ...]
    choice: VariantChoice
    # Score of the smallest variant minus that of the chosen one, on the report part, with its own 95% interval. If both
    # have the same score on every unit, the interval allows for unseen units on which they would differ.
    smallest_difference: Gain
    tolerance: float  # Maximum loss of score for fewer bytes
    trivial_score: float = 0.0  # Score without knowledge of the vectors

    @property
    def chosen(self) -> int:
        return self.choice.chosen

    @property
    def smallest(self) -> int:
        return self.choice.smallest

    @property
    def conclusion(self) -> str:
        """Advice in sentences, with scores on the report part."""
        report = self.variants[self.chosen].report
        if max(report.low, self.variants[BASELINE].report.low) <= self.trivial_score:
            guess = {TruthKind.PAIRS: "a constant", TruthKind.LABELS: "always guessing the most frequent label"}
            return (
                f"No clear signal: {self._score_sentence(report.value)} ({self._format_interval(report)}), not clearly "
                f"more than the {self._format_score(self.trivial_score)} of {guess.get(self.task, 'random rows')}. "
                "Check that the ground truth belongs to these vectors, or add to it."
            )
        sentences = [] if self.task is TruthKind.COMPRESSION else [self._advice()]
        return " ".join([*sentences, self._saving()])

    @property
    def hubness(self) -> dict[str, RetrievalCounts]:
        sides = {"baseline": self.variants[BASELINE].retrieved, "chosen": self.variants[self.chosen].retrieved}
        return {side: retrieval for side, retrieval in sides.items() if retrieval is not None}

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task.value,
            "metric": self.metric,
            "similarity": self.similarity.value,
            "n": self.n,
            "d": self.d,
            "parts": {"fit": self.fit_units, "choose": self.choose_units, "report": self.report_units},
            "variants": [variant.to_dict() for variant in self.variants],
            "baseline": BASELINE,
            "chosen": self.chosen,
            "smallest": self.smallest,
            "smallest_difference": self.smallest_difference._asdict(),
            "conclusion": self.conclusion,
        }

    def _advice(self) -> str:
        """Return the recommended change in a sentence, with the scores after and before it."""
        chosen, baseline = self.variants[self.chosen], self.variants[BASELINE]
        report = chosen.report
        if self.chosen == BASELINE:
            score = f"{self._score_sentence(report.value)} ({self._format_interval(report)})"
            return f"Keep the vectors as they are: {score}. No change is clearly better."
        change = f"{self._score_sentence(report.value)} instead of {self._format_score(baseline.report.value)}"
        interval = self._format_gain(report.difference_low, report.difference_high)
        sentence = f"{chosen.variant.action}: {change} ({interval})."
        if report.difference_low <= 0:
            units = TASKS[self.task].units
            return f"{sentence} The gain was clear where it was chosen; these held-out {units} do not confirm it."
        return f"{sentence} It was chosen as the best change that clearly beats the baseline."

    def _saving(self) -> str:
        """Return how to save memory in a sentence, with its cost in score."""
        if self.smallest == self.chosen:
            return f"No smaller variant scores within {self.tolerance:g} of it."
        smallest, cost = self.variants[self.smallest], self.smallest_difference
        times = self.variants[self.chosen].bytes / smallest.bytes
        title = METRICS[self.metric]
        price = f"with the same {title}"
        if cost.difference != 0:
            difference = self._format_gain(cost.difference)
            price = f"for {difference}{' of' if self.metric in ACCURACY_SENTENCES else ''} {title}"
        note = ""
        if smallest.variant.storage is VectorStorage.RESCORED:
            note = ", with float32 vectors kept on disk to rescore"
        chosen = self.variants[self.chosen].variant
        same_method = (smallest.variant.method, smallest.variant.parameters) == (chosen.method, chosen.parameters)
        stored = replace(smallest.variant, method=AS_IT_IS, parameters=()) if same_method else smallest.variant
        action = stored.action
        change = f"To save memory, {action[0].lower()}{action[1:]}{note}"
        return f"{change}: {times:.3g} times smaller {price} ({self._format_gain(*cost[1:])})."

    def _score_sentence(self, value: float) -> str:
        """Return what a score says: "nDCG@10 is 0.797"."""
        template = ACCURACY_SENTENCES.get(self.metric, f"{METRICS[self.metric]} is {{}}")
        return template.format(self._format_score(value))

    def _format_score(self, value: float) -> str:
        return format_percent(value) if self.metric in ACCURACY_SENTENCES else f"{value:.3f}"

    def _format_interval(self, report: Interval) -> str:
        return f"{self._format_score(report.low)} to {self._format_score(report.high)}"

    def _format_gain(self, *differences: float) -> str:
        """Return a difference or the ends of its interval: "+0.2 to +1.7 points", or "+0.002 to +0.017"."""
        if self.metric in ACCURACY_SENTENCES:
            return f"{' to '.join(format_signed(100 * difference, 1) for difference in differences)} points"
        return " to ".join(map(format_signed, differences))


def format_difference(report: Interval) -> str:
    """Return the difference to the baseline with its interval: "−0.008 [−0.015, −0.002]"."""
    low, high = format_signed(report.difference_low), format_signed(report.difference_high)
    return f"{format_signed(report.difference)} [{low}, {high}]"
