"""Runs over the API."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from isoscope.core.errors import InvalidError
from isoscope.remote.connection import Connection, Known, Row, path_of

TEXTS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}


class Runs(Connection):
    """Fine-tunes of all experiments."""

    def runs(
        self, q: str = "", *, sort: str = "", experiment: Known | None = None, limit: int = 50, offset: int = 0
    ) -> list[Row]:
        """Return runs that are searched for, of one experiment or of all, the newest first unless sorted otherwise.

        >>> isoscope.runs("task:cola lam<0 status:finished", sort="-performance")
        """
        return self.page_of_runs(q, sort=sort, experiment=experiment, limit=limit, offset=offset)[0]

    def page_of_runs(
        self, q: str = "", *, sort: str = "", experiment: Known | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[list[Row], int]:
        """Return a page of the runs that are searched for, and how many there are on all pages."""
        return self.listed(_path(experiment), q=q, sort=sort, limit=limit, offset=offset)

    def all_runs(self, q: str = "", *, sort: str = "", experiment: Known | None = None) -> Iterator[Row]:
        """Yield all runs that are searched for, however many."""
        return self.every(_path(experiment), q=q, sort=sort)

    def run(self, run: Known) -> Row:
        """Return one run with configuration, results, environment and all that it logged.

        >>> isoscope.run(experiment["runs"][0])["results"]["metrics"]
        {'matthews': 0.41}
        """
        answer: Row = self.ask("GET", path_of("runs", run))
        return answer

    def request_of_run(self, run: Known) -> Row:
        """Return the settings that launch one run again, beside its baseline.

        >>> isoscope.sweep(isoscope.request_of_run(run) | {"batch_size": 8})
        """
        answer: Row = self.ask("GET", path_of("runs", run, "request"))
        return answer

    def table_of_runs(self, q: str = "", *, group: Iterable[str] = (), **look: Any) -> Row:
        """Return means and standard deviations of groups of the runs that are searched for.

        >>> isoscope.table_of_runs("task:cola", group=["lam"], columns="isotropy")["rows"]
        """
        query = {"q": q, "group": list(group), **look}
        answer: Row = self.ask("GET", path_of("compare", "runs", "table"), params=query)
        return answer

    def download_table_of_runs(
        self, target: str | Path, q: str = "", *, group: Iterable[str] = (), **look: Any
    ) -> Path:
        """Write the same as .md, .tex or .csv, as the target is called.

        >>> isoscope.download_table_of_runs("means.tex", "task:cola", group=["lam"], decimals=2)
        """
        suffix = Path(target).suffix
        if suffix not in TEXTS:
            raise InvalidError(f"Expected a target that ends in {', '.join(TEXTS)}, got {str(target)!r}.", "target")
        query = {"q": q, "group": list(group), "format": TEXTS[suffix], **look}
        return self.download(path_of("compare", "runs", "table"), target, params=query)

    def conclusion_of_runs(self, q: str = "", *, group: Iterable[str] = (), on: str = "") -> Row:
        """Return what the runs that are searched for say, and what has to be known before they are compared.

        >>> isoscope.conclusion_of_runs("task:cola", group=["model"])["conclusion"]["sentences"]
        """
        query = {"q": q, "group": list(group), "on": on}
        answer: Row = self.ask("GET", path_of("compare", "runs", "conclusion"), params=query)
        return answer

    def settings_of_runs(self, q: str = "") -> Row:
        """Return the settings in which runs that are searched for differ, and those that they share."""
        answer: Row = self.ask("GET", path_of("compare", "runs", "settings"), params={"q": q})
        return answer

    def activation(self, run: Known) -> Row:
        """Return mean and standard deviation of each dimension of the trained model's sentence vectors."""
        answer: Row = self.ask("GET", path_of("runs", run, "activation"))
        return answer

    def predictions(self, run: Known, *, split: str = "validation") -> Iterator[Row]:
        """Yield what a run predicted for each row: row, reference, predicted; scores of answers.

        Those of ``split="test"`` are sealed until ``open_test``.

        >>> wrong = [one for one in isoscope.predictions(run) if one["predicted"] != one["reference"]]
        """
        return self.every(path_of("runs", run, "predictions"), split=split)

    def download_predictions(self, run: Known, target: str | Path, *, split: str = "validation") -> Path:
        """Write the same as a CSV file.

        >>> isoscope.download_predictions(run, "predictions.csv")
        """
        return self.download(path_of("runs", run, "predictions"), target, params={"format": "csv", "split": split})

    def download_model(self, run: Known, target: str | Path) -> Path:
        """Write the trained model of a run whose settings say ``export``, as a zip file.

        >>> isoscope.download_model(run, "model.zip")
        """
        return self.download(path_of("runs", run, "model"), target)

    def cancel_run(self, run: Known) -> Row:
        """Cancel a run that waits or runs."""
        answer: Row = self.ask("POST", path_of("runs", run, "cancel"))
        return answer


def _path(experiment: Known | None) -> str:
    return path_of("runs") if experiment is None else path_of("experiments", experiment, "runs")
