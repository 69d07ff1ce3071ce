"""The report of a measured embedding: what its page shows, and each of its figures."""

from typing import Any, NamedTuple

from app.context import Context
from app.db.models import Embedding
from app.embeddings.findings import shown_findings
from app.embeddings.headline import headline_of
from app.embeddings.neighbours import read_neighbours, with_lookup
from app.embeddings.readings import groups_of, headlines_of
from app.embeddings.shrinkage import ShrinkageQuery, read_shrinkage
from app.figures.figure import Figure
from app.figures.report import DRAWN, FIGURES, figures_of
from app.figures.sample_size import SAMPLE_SIZE
from app.figures.subject import Subject
from app.postprocess.trial import fitted_note
from app.services.figure_data import get_figure_data, get_figure_slugs
from app.services.postprocess import made_by

LARGE = frozenset(one.slug for one in FIGURES if one.large)
HEAVY = frozenset(one.slug for one in FIGURES if one.heavy)
READ_AT_ONCE = (SAMPLE_SIZE, "neighbours")
"""What the page reads of ``FigureData``. The projection is a megabyte: its own page has it, and fills its place."""


class ReportQuery(NamedTuple):
    """What the URL says of a report: how the shrinkage is read, and whose neighbours are shown."""

    shrinkage: ShrinkageQuery
    name: str | None


def report_of(context: Context, embedding: Embedding, query: ReportQuery, *, whole: bool = False) -> dict[str, Any]:
    """What the template of the report shows; the projection only with ``whole``, else whether there is one."""
    stored = get_figure_slugs(context, embedding.id)
    data = get_figure_data(context, embedding.id, *(stored if whole else stored.intersection(READ_AT_ONCE)))
    figures = figures_of([Subject.of(embedding, data)])
    later = [] if whole else sorted(stored & HEAVY)
    shown = [figure for figure in figures if figure.slug not in later]
    return {
        "headline": headline_of(embedding),
        "findings": shown_findings(embedding),
        "headlines": headlines_of(embedding),
        "groups": groups_of(embedding),
        "drawn": DRAWN,
        "later": later,
        "sample_size": next((figure for figure in shown if figure.slug == SAMPLE_SIZE), None),
        "shape": [figure for figure in shown if figure.slug != SAMPLE_SIZE],
        "large": LARGE,
        "shrinkage": read_shrinkage(context, embedding, query.shrinkage),
        "neighbours": with_lookup(read_neighbours(data.get("neighbours"), query.name), context, embedding),
        "fitted": fitted_note(embedding, made_by(context, embedding)),
        "standalone": False,
        "files": None,
    }


def report_figures(context: Context, embedding: Embedding, slug: str, query: ShrinkageQuery) -> list[Figure]:
    """Build the figures for one request; figure data is read only for the figure asked for."""
    if slug == "zeta":
        curve = read_shrinkage(context, embedding, query).figure
        return [curve] if curve else []
    return figures_of([Subject.of(embedding, get_figure_data(context, embedding.id, slug))])
