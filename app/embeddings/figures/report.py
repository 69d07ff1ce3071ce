"""The figures of reports, comparisons and post-processing trials."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from app.embeddings.figures.cosines import cosines
from app.embeddings.figures.dimensions import activation, rogue_dimensions
from app.embeddings.figures.distances import barcode, twonn
from app.embeddings.figures.overlay import LONGEST_NAME, Overlay, Series, Subject
from app.embeddings.figures.projection import PROJECTION, SPACE, projection, projection_3d
from app.embeddings.figures.sample_size import SAMPLE_SIZE, sample_size
from app.embeddings.figures.spectrum import anisotropy, cumulative_variance, spectrum
from app.figures import palette
from app.figures.figure import Figure, undefined_figure
from app.figures.labels import shorten_names


class ReportFigure(NamedTuple):
    """A kind of figure: the data it needs, its slug and title, and how it is drawn."""

    needs: str  # Slug of a measure or of a figure's data
    slug: str
    title: str
    draw: Callable[[Overlay], Figure]
    large: bool = False  # Whether it takes the width of the page
    heavy: bool = False  # Whether its data are so large that reports load it later, from its own page
    heading: str = "Directions"  # Heading under which reports and comparisons show it
    single: bool = False  # Whether it cannot draw several subjects


# In the order of the page. Reports, comparisons, trials and the API loop over them.
FIGURES = (
    ReportFigure(
        PROJECTION, PROJECTION, "First two principal components", projection, large=True, heavy=True, heading="Map"
    ),
    ReportFigure(
        PROJECTION,
        SPACE,
        "First three principal components",
        projection_3d,
        large=True,
        heavy=True,
        heading="Map",
        single=True,
    ),
    ReportFigure("activation_profile", "activation", "Activation by dimension", activation, large=True),
    ReportFigure("spectrum", "spectrum", "Eigenvalue spectrum", spectrum),
    ReportFigure("spectrum", "cumulative", "Cumulative variance", cumulative_variance),
    ReportFigure("anisotropy_raw", "anisotropy", "k-th anisotropy", anisotropy),
    ReportFigure("cosine_histogram", "cosines", "Cosines of pairs", cosines),
    ReportFigure("rogue_dimensions", "rogue", "Rogue dimensions", rogue_dimensions),
    ReportFigure("twonn", "twonn", "TwoNN fit", twonn, heading="Neighborhoods"),
    ReportFigure("barcode", "barcode", "Barcode in dimension 0", barcode, heading="Neighborhoods"),
    ReportFigure(SAMPLE_SIZE, SAMPLE_SIZE, "How many rows it takes", sample_size, heading="Number of rows"),
)

HEAVY_FIGURES = tuple(record for record in FIGURES if record.heavy)
LARGE_FIGURES = frozenset(record.slug for record in FIGURES if record.large)
DATA_BY_FIGURE = {record.slug: record.needs for record in FIGURES}
FIGURES_BY_MEASURE = {record.needs: record.slug for record in reversed(FIGURES)}  # The first figure of each
HEADINGS_BY_FIGURE = {record.slug: record.heading for record in FIGURES}


def draw_figures(subjects: Sequence[Subject], slug: str = "") -> list[Figure]:
    """Return the figures that the subjects have data for, or only that of ``slug``. Each shows all subjects.

    If a figure is undefined for some subjects, its caption says why, and it draws the others; if for all, it only says
    why. A measure has no figure if only its value is stored.
    """
    names = [subject.name for subject in subjects]
    colors = [*palette.SERIES, *[palette.QUIET] * len(names)]
    columns = zip(names, shorten_names(names, LONGEST_NAME), colors, subjects, strict=False)
    overlay = Overlay(tuple(Series(*column) for column in columns), len(names) > 1)
    figures = []
    for record in FIGURES:
        if slug not in ("", record.slug) or (record.single and overlay.several):
            continue
        needs = record.needs
        drawn = tuple(series for series in overlay.series if series.can_draw(needs))
        if drawn:
            figure = record.draw(replace(overlay, series=drawn))
            missing = [
                f"{series.name}: {series.explain_missing(needs)}" for series in overlay.series if series not in drawn
            ]
            caption = f"{figure.caption} Not drawn: {' '.join(missing)}" if missing else figure.caption
            figures.append(replace(figure, caption=caption))
        elif any(series.can_report(needs) for series in overlay.series):
            reasons = overlay.describe(partial(Series.explain_missing, slug=needs))
            figures.append(undefined_figure(record.slug, record.title, reasons))
    return figures
