"""Name, tags and notes of an embedding: the form by itself, and what it says."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.context import Context
from app.dependencies import ContextDep
from app.problems import status_of
from app.routes.responses import see
from app.services.description import describe_embedding, split_tags
from app.services.embeddings import get_embedding
from app.services.library import known_tags
from app.templating import templates
from isoscope.core.errors import InvalidError

router = APIRouter(prefix="/embeddings/{embedding_id}/description")


@router.get("")
def show_form(request: Request, context: ContextDep, embedding_id: str) -> Response:
    """The form."""
    return _page(request, context, embedding_id, {})


@router.post("")
def describe(
    request: Request,
    context: ContextDep,
    embedding_id: str,
    name: Annotated[str, Form()] = "",
    tags: Annotated[str, Form()] = "",
    notes: Annotated[str, Form()] = "",
) -> Response:
    """Keep what the form says, or show it again with the sentence at the field that is wrong."""
    try:
        describe_embedding(context, embedding_id, name, notes, split_tags(tags))
    except InvalidError as error:
        return _page(request, context, embedding_id, {"name": name, "tags": tags, "notes": notes}, error)
    return see(f"/embeddings/{embedding_id}")


def _page(
    request: Request,
    context: Context,
    embedding_id: str,
    given: dict[str, str],
    problem: InvalidError | None = None,
) -> Response:
    shown = {
        "embedding": get_embedding(context, embedding_id),
        "known_tags": known_tags(context),
        "given": given,
        "problem": problem,
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "embedding_description.html", shown, status_code=status)
