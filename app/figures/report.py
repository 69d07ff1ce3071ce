"""The figures of a report, from what is stored."""

from collections.abc import Callable, Sequence

from app.figures import activation, cosines, geometry
from app.figures.figure import Figure, undefined
from app.figures.subject import Subject

UNEXPLAINED = "This has no value here."


def figures_of(subjects: Sequence[Subject]) -> list[Figure]:
    """The figures of what was measured, each with all subjects in it; one that is undefined says why."""
    found = subjects[0].found
    figures: list[Figure] = []
    for measure, slug, title, draw in FIGURES:
        if measure in found and found[measure].detail:
            figures += draw(subjects[0])
        elif measure in found:
            figures.append(undefined(slug, title, found[measure].reason or UNEXPLAINED))
    return figures


def _activation(subject: Subject) -> list[Figure]:
    profile = subject.found["activation_profile"]
    return [activation.activation(profile.detail or {}, profile.n)]


def _spectrum(subject: Subject) -> list[Figure]:
    spectrum = subject.found["spectrum"]
    eigenvalues, n = (spectrum.detail or {})["eigenvalues"], spectrum.n
    return [geometry.spectrum(eigenvalues, n), geometry.cumulative(eigenvalues, n)]


def _anisotropy(subject: Subject) -> list[Figure]:
    raw, centred = subject.found["anisotropy_raw"], subject.found["anisotropy_centred"]
    shares, centred_shares = ((measure.detail or {}).get("values", []) for measure in (raw, centred))
    return [geometry.anisotropy(shares, centred_shares, raw.n, centred.reason)]


def _cosines(subject: Subject) -> list[Figure]:
    mean = subject.found["mean_cosine"]
    return [cosines.cosines(subject.found["cosine_histogram"].detail or {}, mean.value, mean.n)]


# The measure that a figure needs, the figure's slug and title, and how it is made.
FIGURES: tuple[tuple[str, str, str, Callable[[Subject], list[Figure]]], ...] = (
    ("activation_profile", "activation", "Activation by dimension", _activation),
    ("spectrum", "spectrum", "Eigenvalue spectrum", _spectrum),
    ("anisotropy_raw", "anisotropy", "k-th anisotropy", _anisotropy),
    ("cosine_histogram", "cosines", "Cosines of pairs", _cosines),
)

DRAWN = {measure: slug for measure, slug, _, _ in FIGURES}
"""The figure that shows the whole of a measure."""
