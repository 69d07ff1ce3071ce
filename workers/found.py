"""What is stored of a measure that was taken."""

from __future__ import annotations

from typing import Any

from app.db.models import MeasurementStatus
from isotropy.report import Finding
from isotropy.score import Score


def columns_of(slug: str, found: Finding) -> dict[str, Any]:
    """Return the columns of a ``Measurement``, but for its embedding."""
    value = found.score.value
    return {
        "measure": slug,
        "status": MeasurementStatus.UNDEFINED if value is None else MeasurementStatus.OK,
        "value": value,
        "se": found.score.se,
        "resampled": _resampled(found),
        "reason": found.score.reason,
        "n": found.n,
        "detail": found.detail,
    }


def _resampled(found: Finding) -> dict[str, Any] | None:
    if not found.score.parts and not found.at_sizes:
        return None
    at = {str(size): _with_parts(score) for size, score in found.at_sizes.items() if score.parts}
    return {"parts": list(found.score.parts), "at": at}


def _with_parts(score: Score) -> dict[str, Any]:
    return {"value": score.value, "parts": list(score.parts)}
