"""The figures of reports, comparisons and post-processing trials."""

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
    """A kind of figure: its name, the data it needs, and how it is drawn."""

    needs: str
    """Slug of a measure or of a figure's data."""
    slug: str
    title: str
    draw: Callable[[Overlay], Figure]
    large: bool = False
    """Whether it takes the width of the page."""
    heavy: bool = False
    """Whether its data are so large that a report loads it from the figure's own page."""
    tab: str = "directions"
    """Slug of the report's tab that shows it."""
    single: bool = False
    """Whether it cannot draw several subjects."""


# In the order of the page. Reports, comparisons, trials and the API loop over them.
FIGURES = (
    ReportFigure(
        PROJECTION, PROJECTION, "First two principal components", projection, large=True, heavy=True, tab="map"
    ),
    ReportFigure(
        PROJECTION, SPACE, "First three principal components", space, large=True, heavy=True, tab="map", single=True
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

HEAVY = tuple(record for record in FIGURES if record.heavy)
# The measure or the data that each figure shows.
NEEDS = {record.slug: record.needs for record in FIGURES}
# The figure that shows all of a measure.
DRAWN = {record.needs: record.slug for record in reversed(FIGURES)}


def tabs_of_figures() -> dict[str, str]:
    """Return the tab of a report that shows each figure, by slug."""
    return {record.slug: record.tab for record in FIGURES}


def figures_of(subjects: Sequence[Subject], slug: str = "") -> list[Figure]:
    """Return the figures that the subjects have measurements for, or that of ``slug``; each shows all subjects.

    A figure that is undefined for all subjects says why. One that is defined for some draws these and names the others
    in its caption. A measure that only has a value has no figure.
    """
    overlay = Overlay.from_subjects(subjects)
    records = [record for record in FIGURES if slug in ("", record.slug) and not (record.single and overlay.several)]
    return [
        _figure(overlay, record) for record in records if any(series.tells(record.needs) for series in overlay.series)
    ]


def _figure(overlay: Overlay, record: ReportFigure) -> Figure:
    drawable = overlay.having(record.needs)
    if not drawable.series:
        return undefined(record.slug, record.title, overlay.each(lambda series: series.reason(record.needs)))
    figure = record.draw(drawable)
    return replace(figure, caption=figure.caption + overlay.lacking(record.needs))
