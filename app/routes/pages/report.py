"""The figures of a report, from the stored measurements."""

from collections.abc import Callable

from app.db.models import Embedding, Measurement
from app.figures import activation, cosines, geometry
from app.figures.figure import Figure, undefined

UNEXPLAINED = "This has no value here."

Found = dict[str, Measurement]
"""The measurements of an embedding by their measure."""


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

DRAWN = {measure: slug for measure, slug, _, _ in FIGURES}
"""The figure that shows the whole of a measure."""
