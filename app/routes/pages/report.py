"""The report of an embedding: its numbers and figures, from the stored measurements."""

from collections.abc import Callable
from typing import NamedTuple

from app.db.models import Embedding, Measurement
from app.figures import activation, cosines, geometry
from app.figures.figure import Figure, undefined
from isotropy.catalog import MEASURES, Measure

NUMBERS = (
    "isoscore",
    "participation_ratio",
    "mean_cosine",
    "mean_share",
    "anisotropy_raw",
    "anisotropy_centred",
)

UNEXPLAINED = "This has no value here."

Found = dict[str, Measurement]
"""The measurements of an embedding by their measure."""


class Reading(NamedTuple):
    """A number with the measure it is of and the ends of its range."""

    measure: Measure
    found: Measurement
    low: float
    high: float


def readings_of(embedding: Embedding) -> list[Reading]:
    """The numbers that head the report."""
    found = {measurement.measure: measurement for measurement in embedding.measurements}
    return [Reading(MEASURES[slug], found[slug], *_range(slug, embedding.d or 1)) for slug in NUMBERS if slug in found]


def figures_of(embedding: Embedding) -> list[Figure]:
    """The figures of the measurements there are; one that is undefined says why."""
    found = {measurement.measure: measurement for measurement in embedding.measurements}
    figures: list[Figure] = []
    for measure, slug, title, draw in FIGURES:
        if measure in found and found[measure].detail:
            figures += draw(found)
        elif measure in found:
            figures.append(undefined(slug, title, found[measure].reason or UNEXPLAINED))
    return figures


def _activation(found: Found) -> list[Figure]:
    profile = found["activation_profile"]
    return [activation.activation(profile.detail or {}, profile.n)]


def _spectrum(found: Found) -> list[Figure]:
    eigenvalues, n = (found["spectrum"].detail or {})["eigenvalues"], found["spectrum"].n
    return [geometry.spectrum(eigenvalues, n), geometry.cumulative(eigenvalues, n)]


def _anisotropy(found: Found) -> list[Figure]:
    raw, centred = found["anisotropy_raw"], found["anisotropy_centred"]
    shares, centred_shares = ((measure.detail or {}).get("values", []) for measure in (raw, centred))
    return [geometry.anisotropy(shares, centred_shares, raw.n, centred.reason)]


def _cosines(found: Found) -> list[Figure]:
    mean = found["mean_cosine"]
    return [cosines.cosines(found["cosine_histogram"].detail or {}, mean.value, mean.n)]


# The measure that a figure needs, the figure's slug and title, and how it is made.
FIGURES: tuple[tuple[str, str, str, Callable[[Found], list[Figure]]], ...] = (
    ("activation_profile", "activation", "Activation by dimension", _activation),
    ("spectrum", "spectrum", "Eigenvalue spectrum", _spectrum),
    ("anisotropy_raw", "anisotropy", "k-th anisotropy", _anisotropy),
    ("cosine_histogram", "cosines", "Cosines of pairs", _cosines),
)


def _range(slug: str, d: int) -> tuple[float, float]:
    if slug == "participation_ratio":
        return 1, d
    return (-1, 1) if slug == "mean_cosine" else (0, 1)
