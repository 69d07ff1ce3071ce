"""The figures of a report, of a comparison and of what a method changed, from what is stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.embeddings.figures.cosines import cosines
from app.embeddings.figures.dimensions import activation, rogue
from app.embeddings.figures.distances import barcode, twonn
from app.embeddings.figures.overlay import Overlay, Subject
from app.embeddings.figures.projection import PROJECTION, SPACE, projection, space
from app.embeddings.figures.sample_size import SAMPLE_SIZE, sample_size
from app.embeddings.figures.spectrum import anisotropy, cumulative, spectrum
from app.figures.figure import Figure, undefined


class ReportFigure(NamedTuple):
    """A figure of a report: what it is called, what it needs, and how it is drawn."""

    needs: str
    """A measure, or the data of that slug."""
    slug: str
    title: str
    draw: Callable[[Overlay], Figure]
    large: bool = False
    """Whether it takes the width of the page."""
    heavy: bool = False
    """Whether its data are so large that a report leaves them to the figure's own page, which fills its place."""
    tab: str = "directions"
    """The part of a report that shows it."""
    alone: bool = False
    """Whether several subjects cannot be drawn in it."""


FIGURES = (
    ReportFigure(
        PROJECTION, PROJECTION, "First two principal components", projection, large=True, heavy=True, tab="map"
    ),
    ReportFigure(
        PROJECTION, SPACE, "First three principal components", space, large=True, heavy=True, tab="map", alone=True
    ),
    ReportFigure("activation_profile", "activation", "Activation by dimension", activation, large=True),
    ReportFigure("spectrum", "spectrum", "Eigenvalue spectrum", spectrum, tab="overview"),
    ReportFigure("spectrum", "cumulative", "Cumulative variance", cumulative),
    ReportFigure("anisotropy_raw", "anisotropy", "k-th anisotropy", anisotropy),
    ReportFigure("cosine_histogram", "cosines", "Cosines of pairs", cosines, tab="overview"),
    ReportFigure("rogue_dimensions", "rogue", "Rogue dimensions", rogue),
    ReportFigure("twonn", "twonn", "TwoNN fit", twonn, tab="neighbors"),
    ReportFigure("barcode", "barcode", "Barcode in dimension 0", barcode, tab="neighbors"),
    ReportFigure(SAMPLE_SIZE, SAMPLE_SIZE, "How many rows it takes", sample_size, tab="map"),
)
"""In the order of the page. One more is a record more: reports, comparisons, trials and the API loop over them."""

HEAVY = tuple(one for one in FIGURES if one.heavy)

NEEDS = {one.slug: one.needs for one in FIGURES}
"""The measure or the data that each figure shows."""

DRAWN = {one.needs: one.slug for one in reversed(FIGURES)}
"""The figure that shows the whole of a measure."""


def tabs_of_figures() -> dict[str, str]:
    """Return the part of a report that shows each figure, by slug."""
    return {one.slug: one.tab for one in FIGURES}


def figures_of(subjects: Sequence[Subject], slug: str = "") -> list[Figure]:
    """Build the figures that the subjects have measurements for, or that of ``slug``; each shows all subjects.

    One that is undefined for all says why. One that is for some draws the others, and names those in its caption.
    Of a value alone there is nothing to draw and nothing to say.
    """
    everyone = Overlay.from_subjects(subjects)
    drawn = [one for one in FIGURES if slug in ("", one.slug) and not (one.alone and everyone.several)]
    return [_figure(everyone, one) for one in drawn if any(series.tells(one.needs) for series in everyone.series)]


def _figure(everyone: Overlay, record: ReportFigure) -> Figure:
    drawable = everyone.having(record.needs)
    if not drawable.series:
        return undefined(record.slug, record.title, everyone.each(lambda one: one.reason(record.needs)))
    figure = record.draw(drawable)
    return replace(figure, caption=figure.caption + everyone.lacking(record.needs))
