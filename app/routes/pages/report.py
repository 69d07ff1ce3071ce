"""The report of a measured embedding: on its page, as files, and as one file that stands alone."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Request, Response

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus
from app.dependencies import ContextDep
from app.embeddings.headline import headline_of
from app.embeddings.readings import groups_of, headlines_of, table_of
from app.errors import NotFoundError
from app.figures.figure import Figure
from app.figures.projection import PROJECTION
from app.figures.report import DRAWN, figures_of
from app.figures.sample_size import SAMPLE_SIZE
from app.figures.subject import Subject
from app.inlined import data_url, inlined
from app.postprocess.fitted import fitted_note
from app.routes.downloads import attachment
from app.routes.pages.neighbours import read_neighbours, with_lookup
from app.routes.pages.shrinkage import ShrinkageDep, ShrinkageQuery, read_shrinkage
from app.routes.responses import FileKind, csv_file, figure_file, find_figure
from app.services.embeddings import get_embedding
from app.services.figure_data import get_figure_data, get_figure_slugs
from app.services.names import file_name
from app.services.postprocess import made_by
from app.templating import templates

router = APIRouter(prefix="/embeddings/{embedding_id}")

SHAPE = (PROJECTION, "activation", "spectrum", "cumulative", "anisotropy", "cosines", "rogue", "twonn", "barcode")
"""The order of the figures of the cloud's shape; others follow."""
LARGE = frozenset({PROJECTION, "activation"})
READ_AT_ONCE = (SAMPLE_SIZE, "neighbours")
"""What the page reads of ``FigureData``. The projection is a megabyte: its own page has it, and fills its place."""


class ReportQuery(NamedTuple):
    """What the URL says of a report: how the shrinkage is read, and whose neighbours are shown."""

    shrinkage: ShrinkageQuery
    name: str | None


def _query(shrinkage: ShrinkageDep, name: Annotated[str | None, Query()] = None) -> ReportQuery:
    return ReportQuery(shrinkage, name)


ReportDep = Annotated[ReportQuery, Depends(_query)]


def report_of(context: Context, embedding: Embedding, query: ReportQuery, *, whole: bool = False) -> dict[str, Any]:
    """What the template of the report shows; the projection only with ``whole``, else whether there is one."""
    stored = get_figure_slugs(context, embedding.id)
    data = get_figure_data(context, embedding.id, *(stored if whole else stored.intersection(READ_AT_ONCE)))
    figures = figures_of([Subject.of(embedding, data)])
    later = [] if whole else sorted(stored.intersection({PROJECTION}))
    shown = [figure for figure in figures if figure.slug not in later]
    return {
        "headline": headline_of(embedding),
        "headlines": headlines_of(embedding),
        "groups": groups_of(embedding),
        "drawn": DRAWN,
        "later": later,
        "sample_size": next((figure for figure in shown if figure.slug == SAMPLE_SIZE), None),
        "shape": sorted((figure for figure in shown if figure.slug != SAMPLE_SIZE), key=_place),
        "large": LARGE,
        "shrinkage": read_shrinkage(context, embedding, query.shrinkage),
        "neighbours": with_lookup(read_neighbours(data.get("neighbours"), query.name), context, embedding),
        "fitted": fitted_note(embedding, made_by(context, embedding)),
        "standalone": False,
        "files": None,
    }


@router.get("/report.html")
def show_report_file(request: Request, context: ContextDep, embedding_id: str, query: ReportDep) -> Response:
    """The report as one file to keep: it asks for nothing, from anywhere."""
    embedding = _measured(context, embedding_id)
    shown = report_of(context, embedding, query, whole=True)
    curve = shown["shrinkage"].figure
    figures: list[Figure] = [*([curve] if curve else []), *shown["shape"]]
    figures += [shown["sample_size"]] if shown["sample_size"] else []
    shown |= {
        "embedding": embedding,
        "here": "",
        "standalone": True,
        "inlined": inlined,
        "measurements_csv": data_url("text/csv", table_of(embedding).csv()),
        "files": {
            figure.slug: {
                "json": data_url("application/json", figure.draw().to_json()),
                "csv": data_url("text/csv", figure.table.csv()),
            }
            for figure in figures
            if not figure.empty
        },
    }
    page = templates.TemplateResponse(request, "report_file.html", shown)
    page.headers.update(attachment(f"isoscope-{file_name(embedding.name) or 'report'}.html"))
    return page


@router.get("/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, embedding_id: str, slug: str, query: ReportDep) -> Response:
    """A figure of the report with its numbers, on a page of its own, of which the report takes them when asked."""
    embedding = get_embedding(context, embedding_id)
    figure = find_figure(report_figures(context, embedding, slug, query.shrinkage), slug)
    shown = {"embedding": embedding, "figure": figure, "query": query.shrinkage.encoded()}
    return templates.TemplateResponse(request, "embedding_figure.html", shown)


@router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, embedding_id: str, slug: str, kind: FileKind, query: ShrinkageDep) -> Response:
    """A figure of the report."""
    embedding = get_embedding(context, embedding_id)
    return figure_file(report_figures(context, embedding, slug, query), slug, kind)


@router.get("/measurements.csv")
def show_measurements(context: ContextDep, embedding_id: str) -> Response:
    """All measurements of the report."""
    return csv_file(table_of(_measured(context, embedding_id)), "measurements")


def report_figures(context: Context, embedding: Embedding, slug: str, query: ShrinkageQuery) -> list[Figure]:
    """The figures of which one is wanted; of the data that no measure holds, only its own is read."""
    if slug == "zeta":
        curve = read_shrinkage(context, embedding, query).figure
        return [curve] if curve else []
    return figures_of([Subject.of(embedding, get_figure_data(context, embedding.id, slug))])


def _measured(context: Context, embedding_id: str) -> Embedding:
    embedding = get_embedding(context, embedding_id)
    if embedding.status is not EmbeddingStatus.READY:
        state = f"There are no measurements of {embedding.name}, whose state is {embedding.status}"
        raise NotFoundError(f"{state}: its page tells how to go on.")
    return embedding


def _place(figure: Figure) -> int:
    return SHAPE.index(figure.slug) if figure.slug in SHAPE else len(SHAPE)
