"""Runs, runs of scripts, and figures over the API.

A figure is a dictionary with a title, its numbers, and ``plot`` for plotly, which is None if nothing can be drawn yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from isoscope.client.connection import Connection, Reference, Row, id_of, path_of
from isoscope.core.errors import InvalidError

FORMATS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}


class Runs(Connection):
    """Runs of all experiments."""

    def runs(
        self, q: str = "", *, sort: str = "", experiment: Reference | None = None, limit: int = 50, offset: int = 0
    ) -> list[Row]:
        """Return runs that match the search ``q``, in one experiment or in all, newest first unless sorted otherwise.

        >>> isoscope.runs("task:cola lam<0 status:finished", sort="-performance")
        """
        return self.page_of_runs(q, sort=sort, experiment=experiment, limit=limit, offset=offset)[0]

    def page_of_runs(
        self, q: str = "", *, sort: str = "", experiment: Reference | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[list[Row], int]:
        """Return a page of the runs that match a search, and the number of all that match."""
        return self.get_page(_runs_path(experiment), q=q, sort=sort, limit=limit, offset=offset)

    def all_runs(self, q: str = "", *, sort: str = "", experiment: Reference | None = None) -> Iterator[Row]:
        return self.all_rows(_runs_path(experiment), q=q, sort=sort)

    def run(self, run: Reference) -> Row:
        """Return one run with its configuration, results, environment and everything it logged."""
        return self.get("runs", run)

    def request_of_run(self, run: Reference) -> Row:
        """Return the settings that launch one run again with its baseline.

        >>> isoscope.sweep(isoscope.request_of_run(run) | {"batch_size": 8})
        """
        return self.get("runs", run, "request")

    def table_of_runs(self, q: str = "", *, group: Iterable[str] = (), **options: Any) -> Row:
        """Return means over groups of the runs that match a search, with half the width of their 95% intervals.

        >>> isoscope.table_of_runs("task:cola", group=["lam"], columns="isotropy")["rows"]
        """
        return self.get("compare", "runs", "table", q=q, group=list(group), **options)

    def download_table_of_runs(
        self, target: str | Path, q: str = "", *, group: Iterable[str] = (), **options: Any
    ) -> Path:
        """Write the table of ``table_of_runs`` to a target that ends in .md, .tex or .csv."""
        suffix = Path(target).suffix
        if suffix not in FORMATS:
            raise InvalidError(f"Expected a target that ends in {', '.join(FORMATS)}, got {str(target)!r}.", "target")
        query = {"q": q, "group": list(group), "format": FORMATS[suffix], **options}
        return self.download(path_of("compare", "runs", "table"), target, params=query)

    def conclusion_of_runs(self, q: str = "", *, group: Iterable[str] = (), on: str = "") -> Row:
        """Return the conclusion from the runs that match a search; ``on`` is a data set and metric, as ``<id>.f1``."""
        return self.get("compare", "runs", "conclusion", q=q, group=list(group), on=on)

    def settings_of_runs(self, q: str = "") -> Row:
        """Return the settings in which the runs that match a search differ, and those that they share."""
        return self.get("compare", "runs", "settings", q=q)

    def activation(self, run: Reference) -> Row:
        """Return the mean and standard deviation of each dimension of the trained model's sentence vectors."""
        return self.get("runs", run, "activation")

    def predictions(self, run: Reference, *, split: str = "validation") -> Iterator[Row]:
        """Yield a run's prediction for each row. Those for the test split are sealed until ``open_test``.

        >>> wrong = [row for row in isoscope.predictions(run) if row["predicted"] != row["reference"]]
        """
        return self.all_rows(path_of("runs", run, "predictions"), split=split)

    def download_predictions(self, run: Reference, target: str | Path, *, split: str = "validation") -> Path:
        return self.download(path_of("runs", run, "predictions"), target, params={"format": "csv", "split": split})

    def download_model(self, run: Reference, target: str | Path) -> Path:
        """Write the trained model of a run whose settings say ``export``, as a zip file."""
        return self.download(path_of("runs", run, "model"), target)

    def cancel_run(self, run: Reference) -> Row:
        return self.post("runs", run, "cancel")

    def tag_run(self, run: Reference, tags: Iterable[str]) -> Row:
        return self.patch("runs", run, json={"tags": list(tags)})

    def delete_run(self, run: Reference) -> None:
        self.delete("runs", run)

    def act_on_runs(self, action: str, runs: Iterable[Reference]) -> Row:
        """Apply ``cancel``, ``retry`` or ``delete`` to several runs; return ``done`` and ``refused``.

        >>> isoscope.act_on_runs("retry", isoscope.all_runs("status:failed"))["refused"]
        []
        """
        return self._act("runs", action, runs)

    def act_on_experiments(self, action: str, experiments: Iterable[Reference]) -> Row:
        """Apply ``cancel``, ``retry`` or ``delete`` to several experiments."""
        return self._act("experiments", action, experiments)

    def act_on_embeddings(self, action: str, embeddings: Iterable[Reference]) -> Row:
        """Apply ``measure`` or ``trash`` to several embeddings."""
        return self._act("embeddings", action, embeddings)

    def _act(self, resource: str, action: str, rows: Iterable[Reference]) -> Row:
        return self.post(resource, "actions", json={"action": action, "ids": [id_of(row) for row in rows]})


class ScriptRuns(Connection):
    """Runs of the user's own scripts."""

    def begin_run(self, announcement: Mapping[str, Any]) -> Row:
        """Announce a run by experiment, dataset, model, task, metric, regularizer, lam, zeta, seed and settings."""
        return self.post("runs", json=dict(announcement))

    def log_steps(self, run: Reference, steps: Iterable[Mapping[str, Any]]) -> Row:
        """Log steps of a run; an empty list says that its script still trains.

        >>> isoscope.log_steps(run, [{"step": 1, "task_loss": 0.7, "penalty": -0.1}])
        """
        return self.post("runs", run, "steps", json={"steps": [dict(step) for step in steps]})

    def log_predictions(self, run: Reference, predictions: Mapping[str, Any]) -> Row:
        """Log predictions for up to 10,000 validation rows, as columns of equal length.

        >>> isoscope.log_predictions(run, {"rows": [0, 1], "reference": [1, 0], "predicted": [1, 1]})
        """
        return self.post("runs", run, "predictions", json=dict(predictions))

    def finish_run(self, run: Reference, ending: Mapping[str, Any]) -> Row:
        """End a run with its ``metrics``, or with the ``error`` that ended it."""
        return self.post("runs", run, "finish", json=dict(ending))


class Figures(Connection):
    """Every figure of every page."""

    def figures(self, experiment: Reference) -> list[str]:
        """Return the slugs of an experiment's figures."""
        return self.get_list("experiments", experiment, "figures")

    def figure(self, experiment: Reference, slug: str, **query: Any) -> Row:
        """Return a figure of an experiment: ``isotropy``, ``lambda``, ``learning`` and others.

        >>> plotly.graph_objects.Figure(isoscope.figure(experiment, "lambda")["plot"]).show()
        """
        return self.get("experiments", experiment, "figures", slug, **query)

    def figure_of_run(self, run: Reference, slug: str, **query: Any) -> Row:
        """Return ``loss``, ``penalty``, ``layers``, ``twonn`` or ``activation`` of a run."""
        return self.get("runs", run, "figures", slug, **query)

    def figure_of_embedding(self, embedding: Reference, slug: str, **query: Any) -> Row:
        return self.get("embeddings", embedding, "figures", slug, **query)

    def figure_of_postprocessing(self, embedding: Reference, postprocessing: Reference, slug: str) -> Row:
        return self.get("embeddings", embedding, "postprocessings", postprocessing, "figures", slug)

    def figure_of_encoding(self, encoding: Reference, slug: str, **query: Any) -> Row:
        return self.get("encodings", encoding, "figures", slug, **query)

    def figure_of_comparison(self, slug: str, *embeddings: Reference, **query: Any) -> Row:
        """Return a figure of several embeddings, such as the layers of a model or its checkpoints in order."""
        return self.get("compare", "figures", slug, id=[id_of(embedding) for embedding in embeddings], **query)

    def figures_of_runs(self, q: str = "") -> list[str]:
        return self.get_list("compare", "runs", "figures", q=q)

    def figure_of_runs(self, slug: str, q: str = "", *, group: Iterable[str] = (), **query: Any) -> Row:
        """Return a figure of runs of any experiments: ``isotropy``, ``lambda``, ``methods`` and others."""
        return self.get("compare", "runs", "figures", slug, q=q, group=list(group), **query)

    def figure_of_playground(self, slug: str, **position: Any) -> Row:
        return self.get("playground", "figures", slug, **position)


def _runs_path(experiment: Reference | None) -> str:
    return path_of("runs") if experiment is None else path_of("experiments", experiment, "runs")
