"""The playground's clouds over the API."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from app.playground import clouds
from app.playground.clouds import SHAPES


class PlaygroundOut(BaseModel):
    """A cloud of the playground and what was measured of it, by slug of `/api/measures`."""

    shape: str
    spread: float
    shift: float
    n: int
    measures: dict[str, float]


class PlaygroundShape(BaseModel):
    """A shape of the playground."""

    slug: str
    name: str
    spread: Annotated[str, Field(description="What the spread parameter, from 0 to 1, sets.")]


class PlaygroundGrid(BaseModel):
    """The values that each coordinate of a position may have."""

    shapes: list[PlaygroundShape]
    spread: list[float]
    shift: Annotated[list[float], Field(description="Distance of the mean from the origin.")]
    n: list[int]


playground_router = APIRouter(prefix="/playground", tags=["playground"])


@playground_router.get("", response_model=PlaygroundOut)
def show_position(
    shape: Annotated[
        str, Query(description="One of the grid’s shapes, by slug.", json_schema_extra={"enum": list(SHAPES)})
    ],
    spread: Annotated[float, Query(allow_inf_nan=False, description="One of the grid’s spreads.")],
    shift: Annotated[float, Query(allow_inf_nan=False, description="One of the grid’s shifts.")],
    n: Annotated[int, Query(description="One of the grid’s sizes.")],
) -> PlaygroundOut:
    """Return the measures of one cloud, to five digits."""
    position = clouds.require_measured_position(clouds.Position(shape, spread, shift, n))
    return PlaygroundOut(**position._asdict(), measures=clouds.get_measures(position))


@playground_router.get("/grid", response_model=PlaygroundGrid)
def show_grid() -> PlaygroundGrid:
    """Return the values of each coordinate. A cloud was measured at every combination of them."""
    shapes = [PlaygroundShape(slug=slug, name=shape.name, spread=shape.spread) for slug, shape in SHAPES.items()]
    return PlaygroundGrid(shapes=shapes, spread=list(clouds.SPREADS), shift=list(clouds.SHIFTS), n=list(clouds.SIZES))
