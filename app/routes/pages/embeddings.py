"""One embedding: look at the draft, choose, measure, read the report."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Form, Request, Response

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus
from app.dependencies import ContextDep
from app.embeddings.report import ReportQuery, report_of
from app.problems import status_of
from app.routes.queries import ReportDep
from app.routes.responses import file_of, safetensors_of, see
from app.services.embeddings import commit_embedding, get_embedding, select_embedding
from app.services.files import get_file, get_npy, get_safetensors, is_npy
from app.services.layers import get_place
from app.services.library import known_tags
from app.templating import templates
from isoscope.core.errors import InvalidError
from isoscope.files.quoting import Quoting
from isoscope.files.selection import Selection

router = APIRouter(prefix="/embeddings")


@router.get("/{embedding_id}")
def show_embedding(request: Request, context: ContextDep, embedding_id: str, query: ReportDep) -> Response:
    """The page of one embedding, whatever its state; it updates itself while a worker is busy with it."""
    return _page(request, context, embedding_id, query)


def read_selection(
    context: ContextDep,
    embedding_id: str,
    vectors: Annotated[list[str] | None, Form()] = None,
    names: Annotated[str, Form()] = "",
    labels: Annotated[str, Form()] = "",
    groups: Annotated[str, Form()] = "",
    transpose: Annotated[bool, Form()] = False,
    quoting: Annotated[Quoting | Literal[""], Form()] = "",
    every_column: Annotated[bool, Form()] = False,
) -> Selection:
    """What the form says is to be read; ``every_column`` takes all columns of numbers for the vectors."""
    inspection = get_embedding(context, embedding_id).inspection or {}
    chosen = inspection.get("numeric_columns", []) if every_column else vectors or []
    return Selection(
        vectors=chosen if inspection.get("numeric_columns") else "".join(chosen[:1]),
        names=names or None,
        labels=labels or None,
        groups=groups or None,
        transpose=transpose,
        quoting=quoting or None,
    )


SelectionDep = Annotated[Selection, Depends(read_selection)]


@router.post("/{embedding_id}/selection")
def choose_selection(
    request: Request, context: ContextDep, embedding_id: str, query: ReportDep, selection: SelectionDep
) -> Response:
    """Choose another array or other columns, and look at them as a draft."""
    try:
        select_embedding(context, embedding_id, selection)
    except InvalidError as error:
        return _page(request, context, embedding_id, query, error, selection)
    return see(f"/embeddings/{embedding_id}")


@router.post("/{embedding_id}/commit")
def commit(
    request: Request,
    context: ContextDep,
    embedding_id: str,
    query: ReportDep,
    selection: SelectionDep,
    chosen: Annotated[bool, Form()] = False,
) -> Response:
    """Measure by what the form says, where that was ``chosen``; a draft that shows it needs no further look."""
    embedding = get_embedding(context, embedding_id)
    shown = embedding.status is EmbeddingStatus.DRAFT and selection == Selection.model_validate(embedding.selection)
    try:
        if chosen and not shown:
            select_embedding(context, embedding_id, selection, commit=True)
        else:
            commit_embedding(context, embedding_id)
    except InvalidError as error:
        return _page(request, context, embedding_id, query, error, selection)
    return see(f"/embeddings/{embedding_id}")


def _choice(refused: Selection | None, embedding: Embedding) -> dict[str, Any] | None:
    """What the form of the choice says, with every field also where an earlier version chose."""
    if refused is None and embedding.selection is not None:
        refused = Selection.model_validate(embedding.selection)
    return refused.model_dump() if refused else None


def _page(
    request: Request,
    context: Context,
    embedding_id: str,
    query: ReportQuery,
    problem: InvalidError | None = None,
    refused: Selection | None = None,
) -> Response:
    """The page; with the problem of a choice that was refused, which its form then still says."""
    embedding = get_embedding(context, embedding_id)
    shown: dict[str, Any] = {
        "embedding": embedding,
        "problem": problem,
        "choice": _choice(refused, embedding),
        "known_tags": known_tags(context),
        "layer": get_place(context, embedding),
        "is_npy": is_npy(embedding),
    }
    if embedding.status is EmbeddingStatus.READY:
        shown |= report_of(context, embedding, query)
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "embedding.html", shown, status_code=status)


@router.get("/{embedding_id}/files/{position}")
def show_file(context: ContextDep, embedding_id: str, position: int) -> Response:
    """A file as it was uploaded or made."""
    return file_of(get_file(context, embedding_id, position))


@router.get("/{embedding_id}/vectors.npy")
def show_npy(context: ContextDep, embedding_id: str) -> Response:
    """The vectors, where they lie in one .npy file."""
    return file_of(get_npy(context, embedding_id))


@router.get("/{embedding_id}/vectors.safetensors")
def show_safetensors(context: ContextDep, embedding_id: str) -> Response:
    """The same vectors as safetensors."""
    return safetensors_of(get_safetensors(context, embedding_id))
