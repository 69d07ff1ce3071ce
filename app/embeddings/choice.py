"""What is chosen to be compared, as the address of the page says it: embeddings, how they are shown, their figures."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query

from app.context import Context
from app.db.models import Embedding
from app.embeddings.comparison import FOUND, Compared, distinct_names, found_cells, get_compared
from app.embeddings.figures.comparison import series_figures, similarity_figures
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import figures_of
from app.embeddings.series import series_of, similar_steps
from app.embeddings.service import get_figure_data
from app.figures.figure import Cell, Figure, Table
from isotropy.catalog import MEASURES


class Choice(NamedTuple):
    """Query of the comparison: ids, the baseline or the first step first, and what is shown of them."""

    ids: list[str]
    differing: bool = False
    """Whether only measures that differ are shown."""
    series: bool = False
    """Whether they are steps in this order, rather than side by side."""
    measure: str = ""
    """The measure that is drawn over the steps."""

    def url(self, path: str = "/compare", **changed: Any) -> str:
        """The comparison of these, or a file of it at ``path``."""
        choice = self._replace(**changed)
        return f"{path}?{choice.query}" if choice.ids else path

    @property
    def query(self) -> str:
        """The query string again."""
        shown = "series" if self.series else "differing" if self.differing else ""
        pairs = [("id", one) for one in self.ids]
        return urlencode(
            pairs + [(name, value) for name, value in (("show", shown), ("measure", self.measure)) if value]
        )

    def first(self, embedding_id: str) -> str:
        """The URL with another baseline."""
        return self.url(ids=[embedding_id, *(one for one in self.ids if one != embedding_id)])

    def without(self, embedding_id: str) -> str:
        """The URL without one of them."""
        return self.url(ids=[one for one in self.ids if one != embedding_id])

    def swapped(self, place: int) -> str:
        """The URL with the one at a place before the one that stands before it."""
        ids = list(self.ids)
        ids[place - 1 : place + 1] = reversed(ids[place - 1 : place + 1])
        return self.url(ids=ids)


def table_of(rows: Sequence[Compared], embeddings: Sequence[Embedding]) -> Table:
    """Every value in a row of its own, beside its difference to the baseline."""
    columns = ["measure", "embedding", "id", *FOUND]
    columns += ["difference", "difference_se", "low", "high", "paired", "rows", "why_no_interval", "excludes_zero"]
    lines: list[list[Cell]] = []
    for row in rows:
        for embedding, found, difference in zip(embeddings, row.found, row.differences, strict=True):
            line: list[Cell] = [row.measure.slug, embedding.name, embedding.id, *found_cells(found)]
            lines.append(line + ([*difference, difference.excludes_zero] if difference else [None] * 8))
    return Table(columns, lines)


def chosen_figures(context: Context, choice: Choice, slug: str) -> list[Figure]:
    """Return the figures of a choice, of a series those over its steps; large data are read for one slug only."""
    embeddings = get_compared(context, choice.ids)
    if not choice.series:
        return compared_figures(context, embeddings, slug)
    series = series_of(embeddings)
    drawn = series.of(choice.measure)
    over_steps = series_figures(series, drawn) if drawn else []
    return [*over_steps, *similarity_figures(series, similar_steps(context, embeddings))]


def compared_figures(context: Context, embeddings: Sequence[Embedding], slug: str) -> list[Figure]:
    """Figures of all of them, under names that tell them apart; of the data that no measure holds, one's is read."""
    subjects = [
        replace(Subject.from_embedding(one, get_figure_data(context, one.id, slug)), name=name)
        for one, name in zip(embeddings, distinct_names(embeddings), strict=True)
    ]
    return figures_of(subjects)


def _choice(
    id: Annotated[  # noqa: A002 - the name in the URL
        list[str] | None, Query(description="Measured embeddings, in order.")
    ] = None,
    show: Annotated[str, Query(description="`series`: as steps in this order. `differing`: what differs.")] = "",
    measure: Annotated[str, Query(description="The measure over the steps of a series.")] = "",
) -> Choice:
    known = measure if measure in MEASURES else ""
    return Choice([one for one in id or [] if one], show == "differing", show == "series", known)


ChoiceDep = Annotated[Choice, Depends(_choice)]
