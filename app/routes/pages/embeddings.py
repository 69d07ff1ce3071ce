"""Embeddings: list, upload, look at the draft, choose, measure, read the report, delete."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile

from app.context import Context
from app.db.models import EmbeddingStatus
from app.dependencies import ContextDep
from app.errors import InvalidError, IsoscopeError, NotFoundError
from app.figures.report import DRAWN, figures_of
from app.figures.subject import Subject
from app.formats.detect import ANNOTATION_FORMATS, EMBEDDING_FORMATS, suffixes
from app.formats.selection import Selection
from app.problems import status_of
from app.routes.pages.answers import FileKind, csv_file, figure_file, see
from app.routes.pages.readings import groups_of, headlines_of, table_of
from app.routes.pages.shrinkage import ShrinkageDep, read_shrinkage
from app.services.embeddings import (
    Incoming,
    commit_embedding,
    create_embedding,
    delete_embedding,
    get_embedding,
    get_figure_data,
    list_embeddings,
    select_embedding,
)
from app.services.encodings import get_place
from app.templating import templates

router = APIRouter(prefix="/embeddings")


@router.get("")
def list_all(request: Request, context: ContextDep) -> Response:
    """All embeddings, and the form to upload one."""
    return _list_page(request, context)


@router.post("")
def upload_embedding(
    request: Request,
    context: ContextDep,
    file: Annotated[list[UploadFile | str] | None, File()] = None,
    annotations: Annotated[UploadFile | str | None, File()] = None,
    name: Annotated[str, Form()] = "",
) -> Response:
    """Keep the files and go to their page, where they are looked into."""
    try:
        vectors = [chosen for one in file or [] if (chosen := _incoming(one))]
        if not vectors:
            raise InvalidError("Expected a file of embeddings: choose one.", "file")
        embedding = create_embedding(context, vectors, _incoming(annotations), name or None)
    except IsoscopeError as error:
        error.field = error.field or "file"
        return _list_page(request, context, error, name=name)
    return see(f"/embeddings/{embedding.id}")


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


@router.get("/{embedding_id}/delete")
def confirm_delete(request: Request, context: ContextDep, embedding_id: str) -> Response:
    """Ask before deleting."""
    embedding = get_embedding(context, embedding_id)
    shown = {
        "section": "data",
        "name": embedding.name,
        "loss": "Its files, its measurements and all curves drawn with it are deleted.",
        "back": f"/embeddings/{embedding_id}",
    }
    return templates.TemplateResponse(request, "confirm_delete.html", shown)


@router.post("/{embedding_id}/delete")
def delete(context: ContextDep, embedding_id: str) -> Response:
    """Delete it."""
    delete_embedding(context, embedding_id)
    return see("/embeddings")


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


def _incoming(upload: UploadFile | str | None) -> Incoming | None:
    """The file of a field; None where none was chosen, which browsers send as a file without a name."""
    if upload is None or isinstance(upload, str) or not upload.filename:
        return None
    return Incoming(upload.file, upload.filename)


def _page(
    request: Request,
    context: Context,
    embedding_id: str,
    query: ShrinkageDep,
    problem: InvalidError | None = None,
) -> Response:
    embedding = get_embedding(context, embedding_id)
    shown: dict[str, Any] = {"embedding": embedding, "problem": problem, "layer": get_place(context, embedding)}
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


def _list_page(request: Request, context: Context, problem: IsoscopeError | None = None, name: str = "") -> Response:
    shown = {
        "embeddings": list_embeddings(context),
        "max_bytes": context.settings.max_upload_bytes,
        "suffixes": {"file": suffixes(EMBEDDING_FORMATS), "annotations": suffixes(ANNOTATION_FORMATS)},
        "problem": problem,
        "name": name,
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "embeddings.html", shown, status_code=status)
