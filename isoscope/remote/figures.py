"""Figures over the API: title, numbers, and ``plot`` as plotly takes it; null where there is nothing to draw yet."""

from collections.abc import Iterable
from typing import Any

from isoscope.remote.connection import Connection, Known, Row, id_of, path_of


class Figures(Connection):
    """Every figure of every page."""

    def figures(self, experiment: Known) -> list[str]:
        """Return the slugs of all figures that an experiment can have."""
        answer: list[str] = self.ask("GET", path_of("experiments", experiment, "figures"))
        return answer

    def figure(self, experiment: Known, slug: str, **query: Any) -> Row:
        """Return a figure of an experiment: ``isotropy``, ``lambda``, ``learning`` and the others.

        >>> figure = isoscope.figure(experiment, "lambda")
        >>> figure["columns"], figure["rows"][0]
        >>> plotly.graph_objects.Figure(figure["plot"]).show()
        """
        return self._figure("experiments", experiment, "figures", slug, **query)

    def figure_of_run(self, run: Known, slug: str, **query: Any) -> Row:
        """Return ``loss``, ``penalty``, ``layers``, ``twonn`` or ``activation`` of a run."""
        return self._figure("runs", run, "figures", slug, **query)

    def figure_of_embedding(self, embedding: Known, slug: str, **query: Any) -> Row:
        """Return a figure of an embedding's report."""
        return self._figure("embeddings", embedding, "figures", slug, **query)

    def figure_of_postprocessing(self, embedding: Known, postprocessing: Known, slug: str) -> Row:
        """Return a figure of what a method changed, before and after."""
        return self._figure("embeddings", embedding, "postprocessings", postprocessing, "figures", slug)

    def figure_of_encoding(self, encoding: Known, slug: str, **query: Any) -> Row:
        """Return a figure of an encoding's layers."""
        return self._figure("encodings", encoding, "figures", slug, **query)

    def figure_of_comparison(self, slug: str, *embeddings: Known) -> Row:
        """Return a figure with several embeddings in it."""
        return self._figure("compare", "figures", slug, id=[id_of(one) for one in embeddings])

    def figures_of_runs(self, q: str = "") -> list[str]:
        """Return the slugs of all figures that the runs of a search can have."""
        answer: list[str] = self.ask("GET", path_of("compare", "runs", "figures"), params={"q": q})
        return answer

    def figure_of_runs(self, slug: str, q: str = "", *, group: Iterable[str] = (), **query: Any) -> Row:
        """Return a figure of runs of any experiments: ``isotropy``, ``lambda``, ``methods`` and others."""
        return self._figure("compare", "runs", "figures", slug, q=q, group=list(group), **query)

    def figure_of_playground(self, slug: str, **position: Any) -> Row:
        """Return a figure of the playground at a position of its sliders."""
        return self._figure("playground", "figures", slug, **position)

    def _figure(self, *parts: Known, **query: Any) -> Row:
        answer: Row = self.ask("GET", path_of(*parts), params=query)
        return answer
