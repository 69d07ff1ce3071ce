"""The query of a comparison, and the figures that it asks for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query

from app.context import Context
from app.db.models import Embedding
from app.embeddings.alignments import arrange_steps, find_alignments, pair_steps
from app.embeddings.comparison import EmbeddingComparison, get_embeddings_to_compare, make_names_distinct
from app.embeddings.figures.comparison import similarity_figures, step_figures
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import draw_figures
from app.embeddings.service import get_figure_data
from app.figures.figure import Figure
from isotropy.catalog import MEASURES


class ComparisonChoice(NamedTuple):
    """Query of the comparison: ids of embeddings, the baseline first, and display options."""

    ids: list[str]
    differing: bool = False  # Whether to list only measures whose interval of the difference lies off 0
    measure: str = ""  # Slug of the measure that is drawn over steps; empty for the default one

    def url(self, path: str = "/compare", **changes: Any) -> str:
        choice = self._replace(**changes)
        return f"{path}?{choice.query}" if choice.ids else path

    @property
    def query(self) -> str:
        options = ("show", "differing" if self.differing else ""), ("measure", self.measure)
        return urlencode(
            [("id", embedding_id) for embedding_id in self.ids] + [(name, value) for name, value in options if value]
        )


def comparison_figures(context: Context, choice: ComparisonChoice, data_slug: str) -> list[Figure]:
    """Return all figures of a comparison, over steps too if it is ordered. Load only the figure data ``data_slug``."""
    comparison = EmbeddingComparison(get_embeddings_to_compare(context, choice.ids))
    figures = overlaid_figures(context, comparison.embeddings, data_slug) if comparison.fits_side_by_side else []
    if comparison.is_ordered:
        measure = comparison.get_measure(choice.measure)
        figures += step_figures(comparison, measure) if measure else []
        alignments = find_alignments(context, pair_steps(comparison.embeddings))
        figures += similarity_figures(comparison, arrange_steps(comparison.embeddings, alignments))
    return figures


def overlaid_figures(context: Context, embeddings: Sequence[Embedding], data_slug: str) -> list[Figure]:
    """Return figures that draw all embeddings together. Load only the figure data ``data_slug``."""
    subjects = [
        replace(Subject.from_embedding(embedding, get_figure_data(context, embedding.id, data_slug)), name=name)
        for embedding, name in zip(embeddings, make_names_distinct(embeddings), strict=True)
    ]
    return draw_figures(subjects)


def _read_choice(
    id: Annotated[  # noqa: A002 - the name in the URL
        list[str] | None, Query(description="Ids of measured embeddings, in order.")
    ] = None,
    show: Annotated[str, Query(description="`differing`: only measures that differ.")] = "",
    measure: Annotated[str, Query(description="The measure over layers or checkpoints.")] = "",
) -> ComparisonChoice:
    ids = [embedding_id for embedding_id in id or [] if embedding_id]
    return ComparisonChoice(ids, show == "differing", measure if measure in MEASURES else "")


ChoiceDep = Annotated[ComparisonChoice, Depends(_read_choice)]
