"""The map of an embedding's rows: what draws it, its files, and a selection made on it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Response
from fastapi.responses import FileResponse

from app.embeddings.point_map import MapDocument, document_of, get_map, get_map_file
from app.embeddings.row_runs import read_rows
from app.embeddings.selections import LeftOut, create_selection, keeping_only
from app.web.dependencies import ContextDep
from app.web.responses import BINARY, DOCUMENTED, see

IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable"}

router = APIRouter(prefix="/embeddings/{embedding_id}/map")


@router.get("/map.json")
def show_map(context: ContextDep, embedding_id: str) -> MapDocument:
    """What draws the map."""
    return document_of(get_map(context, embedding_id), f"/embeddings/{embedding_id}/map")


@router.get("/{sha256}/{name}", **DOCUMENTED)
def show_map_file(
    context: ContextDep, embedding_id: str, sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$")], name: str
) -> FileResponse:
    """The points of the map, or the names of its rows, under the hash of their bytes."""
    return FileResponse(get_map_file(context, embedding_id, sha256).path, media_type=BINARY, headers=IMMUTABLE)


@router.post("/selection")
def measure_selection(
    context: ContextDep,
    embedding_id: str,
    rows: Annotated[str, Form()],
    measure: Annotated[Literal["selected", "rest"], Form()],
) -> Response:
    """Have the rows selected on the map measured, or the rest without them, and go to where the report appears."""
    chosen = read_rows(rows)
    left_out = keeping_only(context, embedding_id, chosen) if measure == "selected" else LeftOut(chosen)
    made = create_selection(context, embedding_id, left_out)
    return see(f"/embeddings/{made.id}")
