"""One embedding: look at the draft, choose, measure, read the report."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request, Response

from app.context import Context
from app.db.models import EmbeddingStatus
from app.dependencies import ContextDep
from app.errors import InvalidError, NotFoundError
from app.figures.report import DRAWN, figures_of
from app.figures.subject import Subject
from app.formats.selection import Selection
from app.problems import status_of
from app.routes.pages.answers import FileKind, csv_file, figure_file, see
from app.routes.pages.readings import groups_of, headlines_of, table_of
from app.routes.pages.shrinkage import ShrinkageDep, read_shrinkage
from app.services.embeddings import commit_embedding, get_embedding, get_figure_data, select_embedding
from app.services.library import known_tags
from app.templating import templates

router = APIRouter(prefix="/embeddings")


@router.get("/{embedding_id}")
def show_embedding(request: Request, context: ContextDep, embedding_id: str, query: ShrinkageDep) -> Response:
    """The page of one embedding, whatever its state; it updates itself while a worker is busy with it."""
    return _page(request, context, embedding_id, query)


def read_selection(
    context: ContextDep,
    embedding_id: str,
    vectors: Annotated[list[str] | None, Form()] = None,
    names: Annotated[str, Form()] = "",
    labels: Annotated[str, Form()] = "",
    transpose: Annotated[bool, Form()] = False,
) -> Selection:
    """What the form of a draft says is to be read."""
    inspection = get_embedding(context, embedding_id).inspection or {}
    chosen = vectors or []
    return Selection(
        vectors=chosen if inspection.get("numeric_columns") else "".join(chosen[:1]),
        names=names or None,
        labels=labels or None,
        transpose=transpose,
    )


SelectionDep = Annotated[Selection, Depends(read_selection)]


@router.post("/{embedding_id}/selection")
def choose_selection(
    request: Request, context: ContextDep, embedding_id: str, query: ShrinkageDep, selection: SelectionDep
) -> Response:
    """Choose another array or other columns of a draft."""
    try:
        select_embedding(context, embedding_id, selection)
    except InvalidError as error:
        return _page(request, context, embedding_id, query, error)
    return see(f"/embeddings/{embedding_id}")


@router.post("/{embedding_id}/commit")
def commit(
    request: Request,
    context: ContextDep,
    embedding_id: str,
    query: ShrinkageDep,
    selection: SelectionDep,
    chosen: Annotated[bool, Form()] = False,
) -> Response:
    """Measure a draft: by what its form says, where that was ``chosen`` and is another choice than the one shown."""
    try:
        if chosen and selection.model_dump() != get_embedding(context, embedding_id).selection:
            select_embedding(context, embedding_id, selection, commit=True)
        else:
            commit_embedding(context, embedding_id)
    except InvalidError as error:
        return _page(request, context, embedding_id, query, error)
    return see(f"/embeddings/{embedding_id}")


@router.get("/{embedding_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, embedding_id: str, slug: str, kind: FileKind, query: ShrinkageDep) -> Response:
    """A figure of the report."""
    embedding = get_embedding(context, embedding_id)
    subject = Subject.of(embedding, get_figure_data(context, embedding_id))
    shrinkage = read_shrinkage(context, embedding, query)
    curve = [shrinkage.figure] if shrinkage.figure else []
    return figure_file([*curve, *figures_of([subject])], slug, kind)


@router.get("/{embedding_id}/measurements.csv")
def show_measurements(context: ContextDep, embedding_id: str) -> Response:
    """All measurements of the report."""
    embedding = get_embedding(context, embedding_id)
    if embedding.status is not EmbeddingStatus.READY:
        state = f"There are no measurements of {embedding.name}, whose state is {embedding.status}"
        raise NotFoundError(f"{state}: its page tells how to go on.")
    return csv_file(table_of(embedding), "measurements")


def _page(
    request: Request,
    context: Context,
    embedding_id: str,
    query: ShrinkageDep,
    problem: InvalidError | None = None,
) -> Response:
    embedding = get_embedding(context, embedding_id)
    shown: dict[str, Any] = {"embedding": embedding, "problem": problem, "known_tags": known_tags(context)}
    if embedding.status is EmbeddingStatus.READY:
        shown |= {
            "headlines": headlines_of(embedding),
            "groups": groups_of(embedding),
            "drawn": DRAWN,
            "figures": figures_of([Subject.of(embedding, get_figure_data(context, embedding_id))]),
            "shrinkage": read_shrinkage(context, embedding, query),
        }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "embedding.html", shown, status_code=status)
