"""The map of an embedding's rows: what draws it, its files, and a selection made on it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Response
from fastapi.responses import FileResponse

from app.context import Context
from app.core.names import file_name
from app.db.point_map import MAP
from app.embeddings.map_rows import MapRows
from app.embeddings.point_map import MapDocument, document_of, get_map, get_map_file
from app.embeddings.selections import LeftOut, create_selection, keeping_only, read_bits, read_rows
from app.embeddings.service import get_embedding
from app.web.dependencies import ContextDep
from app.web.responses import BINARY, DOCUMENTED, attachment, see
from isoscope.core.errors import ConflictError

IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable"}

router = APIRouter(prefix="/embeddings/{embedding_id}/map")


@router.get("/map.json")
def show_map(context: ContextDep, embedding_id: str) -> MapDocument:
    """What draws the map."""
    return document_of(get_map(context, embedding_id), f"/embeddings/{embedding_id}/map")


@router.get("/map.parquet")
def show_map_table(context: ContextDep, embedding_id: str) -> Response:
    """The map as a table, with the columns that embedding-atlas reads."""
    from app.embeddings.map_table import map_parquet  # noqa: PLC0415 - only who exports needs pyarrow

    name = file_name(get_embedding(context, embedding_id).name) or "map"
    table = map_parquet(context, get_map(context, embedding_id))
    return Response(table, media_type=BINARY, headers=attachment(f"{name}-map.parquet"))


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
    measure: Annotated[Literal["selected", "rest"], Form()],
    rows: Annotated[str, Form()] = "",
    bits: Annotated[str, Form()] = "",
    of: Annotated[str, Form()] = "",
) -> Response:
    """Have the rows selected on the map measured, or the rest without them, and go to where the report appears.

    Selections of many runs come as ``bits``, one a point of the map whose points have the hash ``of``.
    """
    chosen = _rows_of_bits(context, embedding_id, bits, of) if bits else read_rows(rows)
    left_out = keeping_only(context, embedding_id, chosen) if measure == "selected" else LeftOut(chosen)
    made = create_selection(context, embedding_id, left_out)
    return see(f"/embeddings/{made.id}")


def _rows_of_bits(context: Context, embedding_id: str, bits: str, sha256: str) -> list[int]:
    found = get_map(context, embedding_id)
    if found.files[MAP] != sha256:
        raise ConflictError("This embedding was measured again since. Reload the page and select again.")
    rows = MapRows(context, found)
    return [rows.place(point) for point in read_bits(bits, found.header.points).tolist()]
