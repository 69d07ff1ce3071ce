"""The playground: a small cloud, and why mean cosine is not isotropy."""

from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from app.figures.example import gaussian_example
from app.figures.figure import Figure
from app.figures.shift import shift_figure
from app.figures.space import cloud_figure
from app.playground.clouds import SHAPES
from app.playground.explanation import explain
from app.playground.grid import SHIFTS, SIZES, SPREADS, Position, nearest, numbers_at
from app.routes.responses import FileKind, figure_file
from app.templating import templates

router = APIRouter(prefix="/playground")

View = Literal["space", "flat"]

SHIFTED = Position("gaussian", 1.0, 7.0, 512)
"""Where the page begins: an example of the I-STAR poster, as is the first preset."""
PRESETS = {
    "Gaussian at the origin": SHIFTED._replace(shift=0.0),
    "The same, shifted": SHIFTED,
    "A narrow cone, and yet even": Position("cone", 1.0, 2.0, 512),
    "A line through the origin: cosine 0, isotropy 0": Position("line", 0.0, 0.0, 512),
    "Too few points": Position("sphere", 1.0, 0.0, 8),
}


class PlaygroundQuery(NamedTuple):
    """What the URL says: a position of the sliders, and whether the cloud is drawn in space."""

    position: Position
    view: View

    def encoded(self) -> str:
        """The query string again."""
        shape, spread, shift, n = self.position
        given = {"shape": shape, "spread": f"{spread:g}", "shift": f"{shift:g}", "n": n}
        return urlencode(given if self.view == "space" else given | {"view": self.view})

    def at(self, position: Position) -> str:
        """The query string of another position."""
        return self._replace(position=position).encoded()

    def seen(self, view: View) -> str:
        """The query string of the same position in another view."""
        return self._replace(view=view).encoded()


def _query(
    shape: str = SHIFTED.shape,
    spread: Annotated[float, Query(allow_inf_nan=False)] = SHIFTED.spread,
    shift: Annotated[float, Query(allow_inf_nan=False)] = SHIFTED.shift,
    n: int = SHIFTED.n,
    view: View = "space",
) -> PlaygroundQuery:
    return PlaygroundQuery(nearest(Position(shape, spread, shift, n)), view)


PlaygroundDep = Annotated[PlaygroundQuery, Depends(_query)]


@router.get("")
def show_playground(request: Request, query: PlaygroundDep) -> Response:
    """The cloud that the URL names, its numbers, and what they show."""
    cloud, shift, example = playground_figures(query)
    shown = {
        "query": query,
        "position": query.position,
        "shapes": SHAPES,
        "spreads": SPREADS,
        "shifts": SHIFTS,
        "sizes": SIZES,
        "presets": PRESETS,
        "numbers": numbers_at(query.position),
        "explanation": explain(query.position),
        "cloud": cloud,
        "shift": shift,
        "example": example,
    }
    return templates.TemplateResponse(request, "playground.html", shown)


@router.get("/figures/{slug}.{kind}")
def show_figure(slug: str, kind: FileKind, query: PlaygroundDep) -> Response:
    """A figure of the page."""
    return figure_file(playground_figures(query), slug, kind)


def playground_figures(query: PlaygroundQuery) -> list[Figure]:
    """The figures of the page at the position of its URL."""
    cloud = cloud_figure(query.position, flat=query.view == "flat")
    return [cloud, shift_figure(query.position), gaussian_example()]
