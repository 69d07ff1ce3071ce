"""Clouds of the playground."""

from typing import Annotated

from pydantic import BaseModel, Field


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
    spread: Annotated[str, Field(description="What its spread, from 0 to 1, is.")]


class PlaygroundGrid(BaseModel):
    """The values that each coordinate of a position may have."""

    shapes: list[PlaygroundShape]
    spread: list[float]
    shift: Annotated[list[float], Field(description="Distance of the mean from the origin.")]
    n: list[int]
