"""Embeddings side by side, as the page, the API and files have them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from app.context import Context
from app.db.models import Embedding
from app.figures.figure import Cell, Figure, Table
from app.figures.report import figures_of
from app.figures.subject import Subject
from app.services.comparison import Compared, distinct_names
from app.services.figure_data import get_figure_data


class Choice(NamedTuple):
    """Query of the page: ids, the baseline first, and whether to show only differences."""

    ids: list[str]
    differing: bool = False

    def url(self, path: str = "/compare", **changed: Any) -> str:
        """The comparison of these, or a file of it at ``path``."""
        choice = self._replace(**changed)
        return f"{path}?{choice.query}" if choice.ids else path

    @property
    def query(self) -> str:
        """The query string again."""
        pairs = [("id", one) for one in self.ids] + ([("show", "differing")] if self.differing else [])
        return urlencode(pairs)

    def first(self, embedding_id: str) -> str:
        """The URL with another baseline."""
        return self.url(ids=[embedding_id, *(one for one in self.ids if one != embedding_id)])

    def without(self, embedding_id: str) -> str:
        """The URL without one of them."""
        return self.url(ids=[one for one in self.ids if one != embedding_id])


def table_of(rows: Sequence[Compared], embeddings: Sequence[Embedding]) -> Table:
    """Every value in a row of its own, beside its difference to the baseline."""
    columns = ["measure", "embedding", "id", "value", "se", "n", "reason"]
    columns += ["difference", "difference_se", "low", "high", "paired", "rows", "why_no_interval", "excludes_zero"]
    lines: list[list[Cell]] = []
    for row in rows:
        for embedding, found, difference in zip(embeddings, row.found, row.differences, strict=True):
            value: list[Cell] = [found.value, found.se, found.n, found.reason] if found else [None] * 4
            line: list[Cell] = [row.measure.slug, embedding.name, embedding.id, *value]
            lines.append(line + ([*difference, difference.excludes_zero] if difference else [None] * 8))
    return Table(columns, lines)


def compared_figures(context: Context, embeddings: Sequence[Embedding], slug: str) -> list[Figure]:
    """Figures of all of them, under names that tell them apart; of the data that no measure holds, one's is read."""
    subjects = [
        replace(Subject.of(one, get_figure_data(context, one.id, slug)), name=name)
        for one, name in zip(embeddings, distinct_names(embeddings), strict=True)
    ]
    return figures_of(subjects)
