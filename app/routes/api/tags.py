"""Tags of embeddings over the API."""

from fastapi import APIRouter

from app.dependencies import ContextDep
from app.services.library import known_tags

router = APIRouter(prefix="/tags", tags=["embeddings"])


@router.get("")
def list_tags(context: ContextDep) -> list[str]:
    """The tags of all embeddings that are not in the trash, each once whatever its case, in alphabetical order."""
    return known_tags(context)
