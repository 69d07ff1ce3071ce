"""The figures of the playground at a position of its sliders."""

from typing import Literal, NamedTuple
from urllib.parse import urlencode

from app.figures.example import gaussian_example
from app.figures.figure import Figure
from app.figures.shift import shift_figure
from app.figures.space import cloud_figure
from app.playground.grid import Position

PlaygroundView = Literal["space", "flat"]

SHIFTED = Position("gaussian", 1.0, 7.0, 512)
"""Where the page begins: an example of the I-STAR poster, as is the first preset."""


class PlaygroundQuery(NamedTuple):
    """What the URL says: a position of the sliders, and whether the cloud is drawn in space."""

    position: Position
    view: PlaygroundView

    def encoded(self) -> str:
        """The query string again."""
        shape, spread, shift, n = self.position
        given = {"shape": shape, "spread": f"{spread:g}", "shift": f"{shift:g}", "n": n}
        return urlencode(given if self.view == "space" else given | {"view": self.view})

    def at(self, position: Position) -> str:
        """The query string of another position."""
        return self._replace(position=position).encoded()

    def seen(self, view: PlaygroundView) -> str:
        """The query string of the same position in another view."""
        return self._replace(view=view).encoded()


def playground_figures(query: PlaygroundQuery) -> list[Figure]:
    """The figures of the page at the position of its URL."""
    cloud = cloud_figure(query.position, flat=query.view == "flat")
    return [cloud, shift_figure(query.position), gaussian_example()]
