"""Files of an embedding to take away."""

from fastapi import APIRouter, Response

from app.dependencies import ContextDep
from app.routes.downloads import file_of, safetensors_of
from app.services.files import get_file, get_npy, get_safetensors

router = APIRouter(prefix="/embeddings/{embedding_id}")


@router.get("/files/{position}")
def show_file(context: ContextDep, embedding_id: str, position: int) -> Response:
    """A file as it was uploaded or made."""
    return file_of(get_file(context, embedding_id, position))


@router.get("/vectors.npy")
def show_npy(context: ContextDep, embedding_id: str) -> Response:
    """The vectors, where they lie in one .npy file."""
    return file_of(get_npy(context, embedding_id))


@router.get("/vectors.safetensors")
def show_safetensors(context: ContextDep, embedding_id: str) -> Response:
    """The same vectors as safetensors."""
    return safetensors_of(get_safetensors(context, embedding_id))
