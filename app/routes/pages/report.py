"""The report of a measured embedding: on its page, as files, and as one file that stands alone."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, Response

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus
from app.db.types import RowId
from app.dependencies import ContextDep
from app.embeddings.readings import table_of
from app.embeddings.report import report_figures, report_of
from app.figures.figure import Figure
from app.inlined import data_url, inlined
from app.routes.queries import ReportDep, ShrinkageDep
from app.routes.responses import FileKind, attachment, csv_file, figure_file, find_figure, see
from app.services.curves import request_zeta_curve
from app.services.embeddings import get_embedding
from app.services.lookups import request_lookup
from app.services.names import file_name
from app.templating import templates
from isoscope.core.errors import NotFoundError

router = APIRouter(prefix="/embeddings/{embedding_id}")


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


def _measured(context: Context, embedding_id: str) -> Embedding:
    embedding = get_embedding(context, embedding_id)
    if embedding.status is not EmbeddingStatus.READY:
        state = f"There are no measurements of {embedding.name}, whose state is {embedding.status}"
        raise NotFoundError(f"{state}: see its page for what to do.")
    return embedding


@router.post("/curves")
def request_curve(context: ContextDep, embedding_id: str, source_id: Annotated[RowId, Form()]) -> Response:
    """Have the curve against another embedding computed."""
    request_zeta_curve(context, embedding_id, source_id)
    return see(f"/embeddings/{embedding_id}?{urlencode({'source': source_id})}#shrinkage")


@router.post("/neighbors")
def look_up(context: ContextDep, embedding_id: str, name: Annotated[str, Form()]) -> Response:
    """Have a row looked up by its name among all rows, and go to where its neighbours appear."""
    request_lookup(context, embedding_id, name)
    return see(f"/embeddings/{embedding_id}?{urlencode({'name': name})}#neighbours")
