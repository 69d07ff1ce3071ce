"""The decision: the scores of all variants, the best, the smallest within the tolerance, and a conclusion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isotropy.catalog import METRICS, Similarity, TruthKind
from isotropy.tasks.bootstrap import Interval
from isotropy.tasks.search import RetrievalCounts
from isotropy.tasks.storage import VectorStorage
from isotropy.tasks.truth import Truth
from isotropy.tasks.variants import Variant

BASELINE = 0  # The first variant is what others are compared with


@dataclass(frozen=True)
class VariantScores:
    """A variant and its scores."""

    variant: Variant
    bytes: int  # Bytes per vector that a search keeps in memory
    # Bias-corrected, of the corpus after post-processing and in these dimensions; None where it is undefined.
    isoscore: float | None
    choose_score: float  # On the part that chooses
    report: Interval
    # Share of the ten nearest in float32 that a search of the stored vectors finds; None if nothing is searched.
    recall_of_exact: float | None
    # How often choose and report queries retrieve each row; None without queries.
    retrieved: RetrievalCounts | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.variant.name,
            "method": self.variant.method,
            "parameters": dict(self.variant.parameters),
            "dimensions": str(self.variant.dimensions),
            "storage": self.variant.storage.value,
            "bytes": self.bytes,
            "isoscore": self.isoscore,
            "choose": {"value": self.choose_score},
            "report": self.report._asdict(),
            "recall_of_exact": self.recall_of_exact,
        }


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
    chosen: int  # Best on the part that chooses; ties go to the fewest bytes
    smallest: int  # The variant with the fewest bytes within the tolerance of the best
    tolerance: float
    trivial_score: float = 0.0  # Score of a constant answer on the choose part

    @property
    def conclusion(self) -> str:
        """The recommendation in sentences, with its scores on the report part."""
        metric_name = METRICS[self.metric]
        chosen, smallest = self.variants[self.chosen], self.variants[self.smallest]
        if chosen.choose_score <= max(self.trivial_score, 0):
            floor, explanation = "0", ""
            if self.trivial_score > 0:
                floor, explanation = (
                    f"{self.trivial_score:.3f}",
                    ", which always telling the most frequent label scores",
                )
            check = "Check that the ground truth belongs to these vectors."
            return f"No variant scores above {floor} by {metric_name}{explanation}. {check}"
        if self.chosen == BASELINE:
            value = f"{metric_name} {chosen.report.value:.3f} [{chosen.report.low:.3f}, {chosen.report.high:.3f}]"
            best_sentence = f"Best: the vectors as they are: {value}."
        else:
            report = chosen.report
            may_be_chance = report.difference_low <= 0 <= report.difference_high and report.difference != 0
            doubt = ", which may be chance" if may_be_chance else ""
            best_sentence = f"Best: {self._claim(chosen)} {metric_name}{doubt}."
        if self.smallest == self.chosen:
            return f"{best_sentence} No smaller variant is within {self.tolerance:g} of it."
        rescored = smallest.variant.storage is VectorStorage.RESCORED
        note = "; keep float32 vectors on disk to rescore" if rescored else ""
        claim = f"{self._claim(smallest)} {metric_name}{note}"
        return f"{best_sentence} Smallest within {self.tolerance:g} of it: {claim}."

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
            "conclusion": self.conclusion,
        }

    def _claim(self, variant: VariantScores) -> str:
        """Describe a variant, as in "PCA-192 int8: 8x smaller, −0.008 [−0.015, −0.002]"."""
        ratio = self.variants[BASELINE].bytes / variant.bytes
        size = f"{ratio:.3g}x smaller, " if ratio > 1 else ""
        return f"{variant.variant.name}: {size}{format_difference(variant.report)}"


def format_difference(report: Interval) -> str:
    """Return the difference to the baseline with its interval: "−0.008 [−0.015, −0.002]"."""
    value, low, high = (
        f"{number:+z.3f}".replace("-", "−") if round(number, 3) else "0.000"
        for number in (report.difference, report.difference_low, report.difference_high)
    )
    return f"{value} [{low}, {high}]"


def choose_variant(
    truth: Truth,
    metric: str,
    similarity: Similarity,
    shape: tuple[int, int],
    part_sizes: tuple[int, int, int],
    variants: Sequence[VariantScores],
    tolerance: float,
    trivial_score: float = 0.0,
) -> Decision:
    """Choose a variant by its score on the choose part alone."""
    indices = range(len(variants))
    chosen = min(indices, key=lambda i: (-variants[i].choose_score, variants[i].bytes, i))
    minimum_score = variants[chosen].choose_score - tolerance
    smallest = min(
        (i for i in indices if variants[i].choose_score >= minimum_score),
        key=lambda i: (variants[i].bytes, -variants[i].choose_score, i),
    )
    return Decision(
        task=truth.kind,
        metric=metric,
        similarity=similarity,
        n=shape[0],
        d=shape[1],
        fit_units=part_sizes[0],
        choose_units=part_sizes[1],
        report_units=part_sizes[2],
        variants=tuple(variants),
        chosen=chosen,
        smallest=smallest,
        tolerance=tolerance,
        trivial_score=trivial_score,
    )
