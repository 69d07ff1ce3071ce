"""The report of an embedding: its numbers and figures, from the stored measurements."""

from typing import NamedTuple

from app.db.models import Embedding, Measurement
from app.figures import activation, cosines, geometry
from app.figures.figure import Figure
from isotropy.catalog import MEASURES, Measure

NUMBERS = (
    "isoscore",
    "participation_ratio",
    "mean_cosine",
    "mean_share",
    "anisotropy_raw",
    "anisotropy_centred",
)


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
    """The figures whose measurements there are."""
    found = {measurement.measure: measurement for measurement in embedding.measurements}
    details = {slug: measurement.detail for slug, measurement in found.items() if measurement.detail}
    figures = []
    if "activation_profile" in details:
        figures.append(activation.activation(details["activation_profile"], found["activation_profile"].n))
    if "spectrum" in details:
        eigenvalues, n = details["spectrum"]["eigenvalues"], found["spectrum"].n
        figures += [geometry.spectrum(eigenvalues, n), geometry.cumulative(eigenvalues, n)]
    if "anisotropy_raw" in details and "anisotropy_centred" in details:
        raw, centred = details["anisotropy_raw"]["values"], details["anisotropy_centred"]["values"]
        figures.append(geometry.anisotropy(raw, centred, found["anisotropy_raw"].n))
    if "cosine_histogram" in details and "mean_cosine" in found:
        mean = found["mean_cosine"]
        figures.append(cosines.cosines(details["cosine_histogram"], mean.value, mean.n))
    return figures


def _range(slug: str, d: int) -> tuple[float, float]:
    if slug == "participation_ratio":
        return 1, d
    return (-1, 1) if slug == "mean_cosine" else (0, 1)
