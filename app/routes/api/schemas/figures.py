"""Figures: the plot, the numbers behind it, and the words around both."""

import json
from typing import Any

from pydantic import BaseModel, Field

from app.figures.figure import Figure


class FigureOut(BaseModel):
    """A figure as its page shows it."""

    slug: str
    title: str
    caption: str
    empty: str | None = Field(description="What will appear, where there is nothing to draw yet; null where there is.")
    columns: list[str]
    rows: list[list[str | float | None]] = Field(description="The numbers, unrounded, as in its CSV file.")
    plot: dict[str, Any] | None = Field(description="`data` and `layout` as plotly takes them.")

    @classmethod
    def of(cls, figure: Figure) -> "FigureOut":
        """The figure, drawn unless it is empty."""
        return cls(
            slug=figure.slug,
            title=figure.title,
            caption=figure.caption,
            empty=figure.empty,
            columns=figure.table.columns,
            rows=list(figure.table.rows),
            plot=None if figure.empty else json.loads(figure.draw().to_json()),
        )
