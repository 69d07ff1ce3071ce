"""Pages of one embedding: draft, selection, measuring, description, report, map, downloads."""

from itertools import chain
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request, Response

from app.context import Context
from app.core.names import to_file_name
from app.db.models import Embedding, EmbeddingStatus
from app.db.types import RowId
from app.descriptions import pages as descriptions
from app.embeddings.api.embeddings import show_file, show_npy, show_safetensors
from app.embeddings.comparison import list_rows_left_out
from app.embeddings.figures.row_map import draw_map
from app.embeddings.files import explain_no_npy
from app.embeddings.library import EMBEDDINGS, describe_embedding, find_adjacent_layers
from app.embeddings.lookups import request_lookup
from app.embeddings.point_map import explain_no_layout, get_map
from app.embeddings.readings import SIMILARITY_CHOICES, tabulate_readings
from app.embeddings.report import ReportDep, ReportQuery, build_report, report_figures
from app.embeddings.selections import LeftOut, create_selection, leave_out_finding, leave_out_unselected, parse_rows
from app.embeddings.service import commit_embedding, describe_lost_tasks, get_embedding, select_embedding
from app.embeddings.zeta_curves import request_zeta_curve
from app.figures.figure import Figure
from app.web.dependencies import ContextDep
from app.web.responses import (
    BINARY,
    FileKind,
    attachment_headers,
    csv_file,
    figure_file,
    find_figure,
    redirect_to,
    render,
    render_figure,
)
from app.web.templating import data_url, inline_file
from isoscope.core.errors import InvalidError, NotFoundError
from isoscope.files.selection import Selection
from isoscope.files.text import Quoting
from isotropy.catalog import Similarity

description_router = descriptions.description_router(EMBEDDINGS, get_embedding, describe_embedding)

router = APIRouter(prefix="/embeddings")


@router.get("/{embedding_id}")
def show_embedding(request: Request, context: ContextDep, embedding_id: str, query: ReportDep) -> Response:
    return _render_embedding(request, context, embedding_id, query)


def read_selection(
    context: ContextDep,
    embedding_id: str,
    vectors: Annotated[list[str] | None, Form()] = None,
    names: Annotated[str, Form()] = "",
    labels: Annotated[str, Form()] = "",
    groups: Annotated[str, Form()] = "",
    transpose: Annotated[bool, Form()] = False,
    quoting: Annotated[Quoting | Literal[""], Form()] = "",
    similarity: Annotated[Similarity, Form()] = Similarity.COSINE,
    every_column: Annotated[bool, Form()] = False,
) -> Selection:
    """Read the selection in a form. ``every_column`` selects all numeric columns as vectors."""
    embedding = get_embedding(context, embedding_id)
    inspection = embedding.inspection or {}
    numeric_columns = inspection.get("numeric_columns", [])
    columns = numeric_columns if every_column else vectors or []
    selection = Selection(
        vectors=columns if numeric_columns else "".join(columns[:1]),
        names=names or None,
        labels=labels or None,
        groups=groups or None,
        transpose=transpose,
        quoting=quoting or None,
        similarity=similarity,
    )
    return selection if embedding.selection is None else selection.with_exclusions_of(embedding.selection)


SelectionDep = Annotated[Selection, Depends(read_selection)]


@router.post("/{embedding_id}/selection")
def choose_selection(
    request: Request, context: ContextDep, embedding_id: str, query: ReportDep, selection: SelectionDep
) -> Response:
    try:
        select_embedding(context, embedding_id, selection)
    except InvalidError as error:
        return _render_embedding(request, context, embedding_id, query, error, selection)
    return redirect_to(f"/embeddings/{embedding_id}")


@router.post("/{embedding_id}/commit")
def commit_selection(
    request: Request,
    context: ContextDep,
    embedding_id: str,
    query: ReportDep,
    selection: SelectionDep,
    chosen: Annotated[bool, Form()] = False,
) -> Response:
    """Measure the form's selection if ``chosen``, else the stored one. Inspect it first unless it is the draft's."""
    embedding = get_embedding(context, embedding_id)
    is_draft = embedding.status is EmbeddingStatus.DRAFT
    is_inspected = is_draft and selection == Selection.model_validate(embedding.selection)
    try:
        if chosen and not is_inspected:
            select_embedding(context, embedding_id, selection, commit=True)
        else:
            commit_embedding(context, embedding_id)
    except InvalidError as error:
        return _render_embedding(request, context, embedding_id, query, error, selection)
    return redirect_to(f"/embeddings/{embedding_id}")


def _render_embedding(
    request: Request,
    context: Context,
    embedding_id: str,
    query: ReportQuery,
    problem: InvalidError | None = None,
    refused_selection: Selection | None = None,
) -> Response:
    """Show the page. After a refused selection, show the problem and keep that selection in the form."""
    embedding = get_embedding(context, embedding_id)
    selection = refused_selection
    if selection is None and embedding.selection is not None:
        selection = Selection.model_validate(embedding.selection)  # adds fields that an earlier version lacked
    page: dict[str, Any] = {
        "embedding": embedding,
        "choice": selection.model_dump() if selection else None,
        "similarity_choices": SIMILARITY_CHOICES,
        "layer": find_adjacent_layers(context, embedding),
        "is_npy": not explain_no_npy(embedding),
        "rows_left_out": list_rows_left_out(embedding),
    }
    if embedding.status is EmbeddingStatus.READY:
        query = query._replace(tab="details") if problem else query
        page |= build_report(context, embedding, query)
    if embedding.status is EmbeddingStatus.FAILED or query.tab == "details":
        page["tasks_lost"] = describe_lost_tasks(context, Embedding.id == embedding_id)
    return render(request, "embeddings/embedding.html", page, problem)


router.get("/{embedding_id}/files/{position}")(show_file)
router.get("/{embedding_id}/vectors.npy")(show_npy)
router.get("/{embedding_id}/vectors.safetensors")(show_safetensors)

report_router = APIRouter(prefix="/embeddings/{embedding_id}")


@report_router.get("/report.html")
def show_report_file(request: Request, context: ContextDep, embedding_id: str, query: ReportDep) -> Response:
    embedding = _get_measured_embedding(context, embedding_id)
    report = build_report(context, embedding, query, standalone=True)
    figures: list[Figure] = [
        *filter(None, [report["shrinkage"].figure]),
        *chain.from_iterable(report["figures_by_heading"].values()),
    ]
    report |= {
        "embedding": embedding,
        "here": "",
        "inline_file": inline_file,
        "measurements_csv": data_url("text/csv", tabulate_readings(embedding).csv()),
        "files": {
            figure.slug: {
                "json": data_url("application/json", figure.json()),
                "csv": data_url("text/csv", figure.table.csv()),
            }
            for figure in figures
            if not figure.empty
        },
    }
    page = render(request, "embeddings/report_file.html", report)
    page.headers.update(attachment_headers(f"isoscope-{to_file_name(embedding.name) or 'report'}.html"))
    return page


@report_router.get("/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, embedding_id: str, slug: str, query: ReportDep) -> Response:
    """Show a figure with its numbers on its own page, from which the report loads heavy figures."""
    embedding = get_embedding(context, embedding_id)
    figure = find_figure(report_figures(context, embedding, slug, query.shrinkage, query.finding), slug)
    figure_query = query.shrinkage.to_query_string()
    if query.finding:
        figure_query += f"&{urlencode({'finding': query.finding})}"
    crumbs = [("Embeddings", "/embeddings"), (embedding.name, f"/embeddings/{embedding_id}")]
    return render_figure(request, figure, "data", crumbs, figure_query)


@report_router.get("/figures/{slug}.{kind}")
def show_figure(context: ContextDep, embedding_id: str, slug: str, kind: FileKind, query: ReportDep) -> Response:
    embedding = get_embedding(context, embedding_id)
    return figure_file(report_figures(context, embedding, slug, query.shrinkage, query.finding), slug, kind)


@report_router.get("/measurements.csv")
def show_measurements(context: ContextDep, embedding_id: str) -> Response:
    return csv_file(tabulate_readings(_get_measured_embedding(context, embedding_id)), "measurements")


def _get_measured_embedding(context: Context, embedding_id: str) -> Embedding:
    embedding = get_embedding(context, embedding_id)
    if embedding.status is not EmbeddingStatus.READY:
        reason = f"There are no measurements of {embedding.name}, whose state is {embedding.status}"
        raise NotFoundError(f"{reason}: see its page for what to do.")
    return embedding


@report_router.post("/curves")
def request_curve(context: ContextDep, embedding_id: str, source_id: Annotated[RowId, Form()]) -> Response:
    request_zeta_curve(context, embedding_id, source_id)
    return redirect_to(f"/embeddings/{embedding_id}?{urlencode({'source': source_id})}#shrinkage")


@report_router.post("/selections")
def measure_without_finding(context: ContextDep, embedding_id: str, finding: Annotated[str, Form()]) -> Response:
    selection = create_selection(context, embedding_id, leave_out_finding(context, embedding_id, finding))
    return redirect_to(f"/embeddings/{selection.id}")


@report_router.post("/neighbors")
def look_up(context: ContextDep, embedding_id: str, text: Annotated[str, Form()] = "") -> Response:
    request_lookup(context, embedding_id, text)
    return redirect_to(f"/embeddings/{embedding_id}?{urlencode({'tab': 'map', 'text': text})}#near-text")


@report_router.get("/map/figure.html")
def show_map_figure(request: Request, context: ContextDep, embedding_id: str, query: ReportDep) -> Response:
    """Show the map alone, which the report polls while a worker lays out its neighbors."""
    stored_map = get_map(context, embedding_id, query.layout)
    values = {
        "embedding": get_embedding(context, embedding_id),
        "here": f"/embeddings/{embedding_id}",
        "tab": query.tab,
        "has_tools": query.tab == "map",
        "map": stored_map,
        "color": query.color,
        "marked_rows": "",
        "layout_note": explain_no_layout(context, embedding_id, stored_map),
    }
    return render(request, "embeddings/_map.html", values)


@report_router.get("/map/plot.json")
def show_map(context: ContextDep, embedding_id: str, color: str = "", layout: str = "") -> Response:
    return Response(draw_map(get_map(context, embedding_id, layout), color).to_json(), media_type="application/json")


@report_router.get("/map/map.parquet")
def show_map_table(context: ContextDep, embedding_id: str) -> Response:
    from app.embeddings.map_table import write_parquet  # noqa: PLC0415 - only this export needs pyarrow

    name = to_file_name(get_embedding(context, embedding_id).name) or "map"
    table = write_parquet(get_map(context, embedding_id))
    return Response(table, media_type=BINARY, headers=attachment_headers(f"{name}-map.parquet"))


@report_router.post("/map/selection")
def measure_selection(
    context: ContextDep,
    embedding_id: str,
    measure: Annotated[Literal["selected", "rest"], Form()],
    rows: Annotated[str, Form()] = "",
) -> Response:
    """Measure the rows selected on the map, or the rest, as a new embedding."""
    selected_rows = parse_rows(rows)
    left_out = LeftOut(selected_rows)
    if measure == "selected":
        left_out = leave_out_unselected(context, embedding_id, selected_rows)
    return redirect_to(f"/embeddings/{create_selection(context, embedding_id, left_out).id}")
