"""The figures of a report, of a comparison and of what a method changed, from what is stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.figures.activation import activation
from app.figures.anisotropy import anisotropy
from app.figures.barcode import barcode
from app.figures.cosines import cosines
from app.figures.figure import Figure, undefined
from app.figures.overlay import Overlay
from app.figures.projection import projection
from app.figures.rogue import rogue
from app.figures.sample_size import sample_size
from app.figures.spectrum import cumulative, spectrum
from app.figures.subject import Subject
from app.figures.twonn import twonn

# What a figure needs, a measure or the data of that slug; the figure's slug and title; and how it is made.
FIGURES: tuple[tuple[str, str, str, Callable[[Overlay], Figure]], ...] = (
    ("activation_profile", "activation", "Activation by dimension", activation),
    ("projection", "projection", "First two principal components", projection),
    ("spectrum", "spectrum", "Eigenvalue spectrum", spectrum),
    ("spectrum", "cumulative", "Cumulative variance", cumulative),
    ("anisotropy_raw", "anisotropy", "k-th anisotropy", anisotropy),
    ("cosine_histogram", "cosines", "Cosines of pairs", cosines),
    ("rogue_dimensions", "rogue", "Rogue dimensions", rogue),
    ("sample_size", "sample_size", "How many rows it takes", sample_size),
    ("twonn", "twonn", "TwoNN fit", twonn),
    ("barcode", "barcode", "Barcode in dimension 0", barcode),
)

DRAWN = {needed: slug for needed, slug, _, _ in reversed(FIGURES)}
"""The figure that shows the whole of a measure."""


def figures_of(subjects: Sequence[Subject]) -> list[Figure]:
    """The figures of what was measured, each with all subjects in it.

    One that is undefined for all says why. One that is for some draws the others, and names those in its caption.
    Of a value alone there is nothing to draw and nothing to say.
    """
    everyone = Overlay.of(subjects)
    return [_figure(everyone, *figure) for figure in FIGURES if any(one.tells(figure[0]) for one in everyone.series)]


def _figure(everyone: Overlay, needed: str, slug: str, title: str, draw: Callable[[Overlay], Figure]) -> Figure:
    drawable = everyone.having(needed)
    if not drawable.series:
        return undefined(slug, title, everyone.each(lambda one: one.reason(needed)))
    figure = draw(drawable)
    return replace(figure, caption=figure.caption + everyone.lacking(needed))
