"""How the labeled classes of a cloud lie."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from isotropy.cloud import Cloud
from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label
from isotropy.report.finding import MeasureFunction, MeasureResult
from isotropy.score import Score
from isotropy.unbiased import isoscore_unbiased

NO_LABELS = Score.undefined("The rows have no labels: choose a column or an array that labels them.")


def _of_pairs(measure: Callable[[Tensor, Tensor], Score]) -> MeasureFunction:
    def measure_pairs(cloud: Cloud) -> MeasureResult:
        if cloud.labels is None:
            return MeasureResult(NO_LABELS, 0)
        x, codes = cloud.labels.drop_unlabeled(cloud.pairs)
        return MeasureResult(measure(x, codes), len(x))

    return measure_pairs


def _isoscore_by_label(cloud: Cloud) -> MeasureResult:
    """Of the rows of classes that have a score; beside it the bias-corrected one, to compare unlike sizes."""
    if cloud.labels is None:
        return MeasureResult(NO_LABELS, 0)
    x, codes = cloud.labels.drop_unlabeled(cloud.sample)
    plain = score_by_label(x.double(), codes, isoscore)
    unbiased = score_by_label(x, codes, isoscore_unbiased)
    classes = [
        {
            "label": cloud.labels.names[entry.label],
            "n": entry.n,
            "value": entry.score.value,
            "unbiased": corrected.score.value,
            "reason": entry.score.reason,
        }
        for entry, corrected in zip(plain.classes, unbiased.classes, strict=True)
    ]
    used = plain.used
    in_all = sum(bool(name) for name in cloud.labels.names)
    detail = {"classes_used": len(used), "classes": in_all, "by_label": classes}
    return MeasureResult(plain.score, sum(entry.n for entry in used), detail)


MEASURES: dict[str, MeasureFunction] = {
    "silhouette": _of_pairs(silhouette),
    "simplified_silhouette": _of_pairs(simplified_silhouette),
    "isoscore_by_label": _isoscore_by_label,
}
