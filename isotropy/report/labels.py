"""How the labeled classes of a cloud lie."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from isotropy.cloud import Cloud
from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label
from isotropy.report.finding import Finding, Measuring
from isotropy.score import Score
from isotropy.unbiased import isoscore_unbiased

NO_LABELS = Score.undefined("The rows have no labels: choose a column or an array that labels them.")


def _of_pairs(measure: Callable[[Tensor, Tensor], Score]) -> Measuring:
    def found(cloud: Cloud) -> Finding:
        if cloud.labels is None:
            return Finding(NO_LABELS, 0)
        x, codes = cloud.labels.of(cloud.pairs)
        return Finding(measure(x, codes), len(x))

    return found


def _isoscore_by_label(cloud: Cloud) -> Finding:
    """Of the rows of classes that have a score; beside it the bias-corrected one, to compare unlike sizes."""
    if cloud.labels is None:
        return Finding(NO_LABELS, 0)
    x, codes = cloud.labels.of(cloud.sample)
    plain = score_by_label(x.double(), codes, isoscore)
    unbiased = score_by_label(x, codes, isoscore_unbiased)
    classes = [
        {
            "label": cloud.labels.names[one.label],
            "n": one.n,
            "value": one.score.value,
            "unbiased": other.score.value,
            "reason": one.score.reason,
        }
        for one, other in zip(plain.classes, unbiased.classes, strict=True)
    ]
    used = plain.used
    in_all = sum(bool(name) for name in cloud.labels.names)
    detail = {"classes_used": len(used), "classes": in_all, "by_label": classes}
    return Finding(plain.score, sum(one.n for one in used), detail)


MEASURES: dict[str, Measuring] = {
    "silhouette": _of_pairs(silhouette),
    "simplified_silhouette": _of_pairs(simplified_silhouette),
    "isoscore_by_label": _isoscore_by_label,
}
