"""Measured clouds as subjects of figures; their measurements are not stored."""

from typing import Any

import numpy as np

from app.db.models import Measurement, MeasurementStatus
from app.embeddings.figures.overlay import Subject
from isotropy.cloud import Cloud, read_cloud
from isotropy.report import measure
from isotropy.rows import Rows

SLUGS = (
    "activation_profile", "spectrum", "anisotropy_raw", "anisotropy_centred", "mean_cosine", "cosine_histogram",
    "rogue_dimensions", "twonn", "barcode", "prominent_bars",
)  # fmt: skip
"""Measures that the figures of a report read."""


def cloud_of(n: int, d: int, seed: int = 0) -> Cloud:
    """Return an anisotropic Gaussian cloud with a shifted mean."""
    x = np.random.default_rng(seed).standard_normal((n, d)) * np.linspace(0.5, 2, d) + np.eye(d)[1] * 3
    return read_cloud(Rows(x))


def subject_of(cloud: Cloud, name: str = "cloud", data: dict[str, Any] | None = None) -> Subject:
    subject_with = {
        slug: measurement(
            slug, report.score.value, report.n, report.detail, se=report.score.se, reason=report.score.reason
        )
        for slug, report in measure(cloud, SLUGS).items()
    }
    return Subject(name, subject_with, data or {})


def measurement(
    slug: str,
    value: float | None,
    n: int,
    detail: dict[str, Any] | None = None,
    *,
    se: float | None = None,
    reason: str | None = None,
) -> Measurement:
    """Return a measurement that is not stored."""
    status = MeasurementStatus.UNDEFINED if value is None else MeasurementStatus.OK
    return Measurement(measure=slug, status=status, value=value, se=se, n=n, detail=detail, reason=reason)


def subject_with(
    slug: str, detail: dict[str, Any], *, value: float = 1.0, n: int = 100, name: str = "cloud"
) -> Subject:
    return Subject(name, {slug: measurement(slug, value, n, detail)})
