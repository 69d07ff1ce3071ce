"""The playground over the API: what was measured of small clouds, ahead."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.playground import grid
from app.playground.clouds import SHAPES
from app.routes.api.schemas.playground import PlaygroundGrid, PlaygroundOut, PlaygroundShape

router = APIRouter(prefix="/playground", tags=["playground"])


@router.get("", response_model=PlaygroundOut)
def show_position(
    shape: Annotated[str, Query(description="A slug of the grid’s shapes.", json_schema_extra={"enum": list(SHAPES)})],
    spread: Annotated[float, Query(allow_inf_nan=False, description="Of the grid’s spreads.")],
    shift: Annotated[float, Query(allow_inf_nan=False, description="Of the grid’s shifts.")],
    n: Annotated[int, Query(description="Of the grid’s sizes.")],
) -> PlaygroundOut:
    """What was measured of one cloud, to five digits."""
    position = grid.require(grid.Position(shape, spread, shift, n))
    return PlaygroundOut(**position._asdict(), measures=grid.numbers_at(position))


@router.get("/grid", response_model=PlaygroundGrid)
def show_grid() -> PlaygroundGrid:
    """The positions at which clouds were measured: every combination of these."""
    shapes = [PlaygroundShape(slug=slug, name=one.name, spread=one.spread) for slug, one in SHAPES.items()]
    return PlaygroundGrid(shapes=shapes, spread=list(grid.SPREADS), shift=list(grid.SHIFTS), n=list(grid.SIZES))
