"""The map of an embedding's rows: its plot, its table, and a selection made on it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Response

from app.core.names import file_name
from app.embeddings.figures.row_map import draw_map
from app.embeddings.point_map import get_map
from app.embeddings.selections import LeftOut, create_selection, keep_only, read_rows
from app.embeddings.service import get_embedding
from app.web.dependencies import ContextDep
from app.web.responses import BINARY, attachment, see

router = APIRouter(prefix="/embeddings/{embedding_id}/map")


@router.get("/plot.json")
def show_map(context: ContextDep, embedding_id: str, color: str = "") -> Response:
    """The map as plotly JSON, its rows colored by their label, their norm or a kept column."""
    return Response(draw_map(get_map(context, embedding_id), color).to_json(), media_type="application/json")


@router.get("/map.parquet")
def show_map_table(context: ContextDep, embedding_id: str) -> Response:
    """The map as a table, with the columns that embedding-atlas reads."""
    from app.embeddings.map_table import write_parquet  # noqa: PLC0415 - only who exports needs pyarrow

    name = file_name(get_embedding(context, embedding_id).name) or "map"
    table = write_parquet(get_map(context, embedding_id))
    return Response(table, media_type=BINARY, headers=attachment(f"{name}-map.parquet"))


@router.post("/selection")
def measure_selection(
    context: ContextDep,
    embedding_id: str,
    measure: Annotated[Literal["selected", "rest"], Form()],
    rows: Annotated[str, Form()] = "",
) -> Response:
    """Have the rows selected on the map measured, or the rest without them, and go to where the report appears."""
    selected = read_rows(rows)
    left_out = keep_only(context, embedding_id, selected) if measure == "selected" else LeftOut(selected)
    return see(f"/embeddings/{create_selection(context, embedding_id, left_out).id}")
