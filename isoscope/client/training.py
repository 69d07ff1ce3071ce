"""Sweeps, experiments, imports and the queue over the API."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from isoscope.address import RETRYABLE_STATUSES
from isoscope.client.connection import Connection, Progress, Reference, RefusedError, Row, path_of
from isoscope.client.data import Datasets, patch_body
from isoscope.core.errors import InvalidError, UnavailableError
from isoscope.core.formatting import quote_for_search
from isoscope.files.yaml_document import MAX_CHARACTERS, read_yaml

# States of a run that change by themselves, unlike paused.
UNFINISHED_STATUSES = ("queued", "running", "streaming")
POLL_SECONDS = 5.0
UNFINISHED_IMPORT_STATUSES = ("queued", "running", "removing")
IMPORT_POLL_SECONDS = 1.0
# How long to wait for a server that is away, such as while it restarts.
SERVER_AWAY_SECONDS = 600.0

# The settings of a sweep, or the path of a YAML file that holds them.
Request = Mapping[str, Any] | str | Path


class Experiments(Datasets):
    """Sweeps and their experiments."""

    def sweep(self, request: Request, *, dataset: str | None = None) -> Row:
        """Launch a sweep and return its experiment; ``dataset`` is the name or id of the data set.

        Settings with a ``search`` launch a search for lambda and zeta, which lists no values of them.

        >>> isoscope.sweep("sweep.yaml", dataset="CoLA")["status"]
        'queued'
        """
        settings = self.settings_of(request, dataset)
        return self.post("studies" if "search" in settings else "experiments", json=settings)

    def plan_sweep(self, request: Request, *, dataset: str | None = None) -> Row:
        """Return the runs, the steps and the estimated time of a sweep, without launching it."""
        return self.post("experiments", "plan", json=self.settings_of(request, dataset))

    def presets(self) -> list[Row]:
        """Return the settings of both papers by stage. Add the data set, columns, task and model to launch them."""
        return self.get_list("presets")

    def experiments(self, q: str = "", *, limit: int = 50, offset: int = 0, **filters: str) -> list[Row]:
        """Return experiments with a run that matches the search ``q``, newest first; ``tag`` selects by tag."""
        return self.get_page("/api/experiments", q=q, limit=limit, offset=offset, **filters)[0]

    def all_experiments(self, q: str = "") -> Iterator[Row]:
        return self.all_rows("/api/experiments", q=q)

    def experiment(self, experiment: Reference) -> Row:
        return self.get("experiments", experiment)

    def find_experiment(self, name: str) -> Row:
        """Return the experiment with a name or id; raise InvalidError if none or several have it."""
        experiments = self.experiments(f"experiment={quote_for_search(name)}")
        if not experiments:
            raise InvalidError(f"There is no experiment {name!r} on {self.url}, by its name or its id.", "experiment")
        if len(experiments) > 1:
            ids = ", ".join(experiment["id"] for experiment in experiments)
            raise InvalidError(f"Several experiments are called {name!r}; name one by its id: {ids}.", "experiment")
        return experiments[0]

    def request(self, experiment: Reference) -> Row:
        """Return the settings that launch an experiment's runs, or its search, again.

        >>> second_dashboard.sweep(isoscope.request(experiment), dataset="CoLA")
        """
        return self.get("experiments", experiment, "request")

    def conclusion(self, experiment: Reference) -> Row:
        """Return a verdict for each setting, whether settings differ, and how performance relates to isotropy."""
        return self.get("experiments", experiment, "conclusion")

    def add_seeds(self, experiment: Reference, seeds: int | None = None) -> Row:
        """Add seeds to the settings without a verdict and to their baselines, by default as the conclusion proposes.

        >>> isoscope.wait(isoscope.add_seeds(experiment))
        """
        return self.post("experiments", experiment, "seeds", json={"seeds": seeds})

    def test_scores(self, experiment: Reference) -> Row:
        """Return whether an experiment's test scores are sealed and what can be chosen, and the scores if opened."""
        return self.get("experiments", experiment, "opening")

    def open_test(self, experiment: Reference, choose: str, *, note: str = "", by: str = "") -> Row:
        """Freeze a choice, a setting of ``test_scores`` or the id of a run, and return the test scores.

        The choice is recorded forever. A choice made after the first is marked as changed afterward.

        >>> isoscope.open_test(experiment, "lambda = -1", note="best on validation")["chosen"]["test"]["mean"]
        0.86
        """
        return self.post("experiments", experiment, "opening", json={"choose": choose, "note": note, "by": by})

    def wait(self, experiment: Reference, on_change: Callable[[Row], object] | None = None) -> Row:
        """Wait until the runs of an experiment have ended or are paused, and return the experiment.

        Calls ``on_change`` whenever the status of a run has changed. Waits ten minutes for a server that is away.
        """
        previous_statuses: list[str] = []
        row = self.experiment(experiment)
        while True:
            statuses = [run["status"] for run in row["runs"]]
            if on_change is not None and statuses != previous_statuses:
                on_change(row)
            if row["status"] not in UNFINISHED_STATUSES and not set(statuses).intersection(UNFINISHED_STATUSES):
                return row
            previous_statuses = statuses
            time.sleep(POLL_SECONDS)
            row = self._retry_while_away(self.experiment, experiment)

    def _retry_while_away(self, get: Callable[[Reference], Row], reference: Reference) -> Row:
        """Return the record that ``get`` returns for a reference. Retry while the server is away."""
        deadline, has_warned = time.monotonic() + SERVER_AWAY_SECONDS, False
        while True:
            try:
                return get(reference)
            except (UnavailableError, RefusedError) as error:
                is_away = isinstance(error, UnavailableError) or error.status in RETRYABLE_STATUSES
                if not is_away or time.monotonic() > deadline:
                    raise
                if not has_warned:
                    sys.stderr.write(f"isoscope: {error} Waiting for it.\n")
                has_warned = True
            time.sleep(POLL_SECONDS)

    def results(self, experiment: Reference) -> list[Row]:
        """Return each run of an experiment with its configuration, results, environment and everything it logged."""
        return [self.get("runs", run) for run in self.experiment(experiment)["runs"]]

    def cancel_experiment(self, experiment: Reference) -> Row:
        return self.post("experiments", experiment, "cancel")

    def describe_experiment(self, experiment: Reference, **change: Any) -> Row:
        """Change an experiment's ``name``, ``notes`` or ``tags``."""
        return self.patch("experiments", experiment, json=patch_body(change))

    def retry_experiment(self, experiment: Reference) -> Row:
        """Queue the failed runs of an experiment again."""
        return self.post("experiments", experiment, "retry")

    def sample_sweep(self) -> Row:
        """Launch the sample sweep; the response has the id of the experiment."""
        return self.post("samples", "sweep")

    def sample_embedding(self) -> Row:
        """Encode and measure the sample's sentences; the response has the id of the encoding."""
        return self.post("samples", "embedding")

    def delete_experiment(self, experiment: Reference) -> None:
        self.delete("experiments", experiment)

    def settings_of(self, request: Request, dataset: str | None = None) -> Row:
        """Return the settings of a sweep, with the data set of a name or id if given."""
        if isinstance(request, Mapping):
            settings = dict(request)
        else:
            path = Path(request)
            try:
                with path.open(encoding="utf-8") as stream:
                    text = stream.read(MAX_CHARACTERS + 1)  # read_yaml refuses a longer text
            except OSError as error:
                raise InvalidError(f"{path} cannot be read: {error.strerror}.", "yaml") from error
            except UnicodeDecodeError as error:
                raise InvalidError(f"Expected a file of text in UTF-8, got other bytes in {path}.", "yaml") from error
            settings = read_yaml(text)
        return settings if dataset is None else settings | {"dataset_id": self.find_dataset(dataset)["id"]}


class Imports(Experiments):
    """Exported experiments, and their imports."""

    def export_experiment(self, experiment: Reference, target: str | Path) -> Path:
        """Write an experiment as a zip file that another dashboard can import."""
        return self.download(path_of("experiments", experiment, "export"), target)

    def import_experiment(
        self,
        file: str | Path,
        *,
        wait: bool = True,
        on_change: Callable[[Row], object] | None = None,
        progress: Progress | None = None,
    ) -> Row:
        """Import an exported experiment and return it; without ``wait``, return the queued import.

        ``on_change`` is called with the import whenever it has changed, ``progress`` with the bytes of each part sent.
        """
        queued_import = self.send_files("/api/experiments/import", [("file", file)], {}, progress)
        return self.wait_for_import(queued_import, on_change) if wait else queued_import

    def wait_for_import(self, queued_import: Reference, on_change: Callable[[Row], object] | None = None) -> Row:
        """Wait until an import has ended and return its experiment; raise RefusedError if it did not finish."""
        previous_row: Row | None = None
        while (row := self._retry_while_away(self.show_import, queued_import))["status"] in UNFINISHED_IMPORT_STATUSES:
            if on_change is not None and row != previous_row:
                on_change(row)
            previous_row = row
            time.sleep(IMPORT_POLL_SECONDS)
        if row["status"] == "finished":
            return self.experiment(row["experiment_id"])
        raise RefusedError(row["error"] or f"The import of {row['filename']} was cancelled.", "file", status=422)

    def imports(self) -> list[Row]:
        return self.get_list("imports")

    def show_import(self, queued_import: Reference) -> Row:
        return self.get("imports", queued_import)

    def cancel_import(self, queued_import: Reference) -> Row:
        """Cancel a queued or running import and remove what it has written."""
        return self.post("imports", queued_import, "cancel")


class QueueStatus(Connection):
    """Workers and waiting runs."""

    def queue(self, *, limit: int = 50, offset: int = 0) -> Row:
        """Return the workers with their runs, and the waiting runs in the order in which they will start."""
        return self.get("queue", limit=limit, offset=offset)

    def pause_all(self) -> int:
        """Pause all runs that have not ended, and return their number."""
        return int(self.post("queue", "pause")["runs"])

    def resume_all(self) -> int:
        """Resume all paused runs, and return their number."""
        return int(self.post("queue", "resume")["runs"])

    def pause_experiment(self, experiment: Reference) -> Row:
        return self.post("experiments", experiment, "pause")

    def resume_experiment(self, experiment: Reference) -> Row:
        return self.post("experiments", experiment, "resume")

    def move_experiment(self, experiment: Reference, to: str) -> Row:
        """Move the queued runs of an experiment ``"first"`` or ``"last"``."""
        return self.post("experiments", experiment, "move", json={"to": to})

    def prioritize_experiment(self, experiment: Reference, priority: int) -> Row:
        """Set the priority of all runs of an experiment; lower numbers go first."""
        return self.put("experiments", experiment, "priority", json={"priority": priority})

    def pause_run(self, run: Reference) -> Row:
        """Pause a run. Once resumed, it continues from its last checkpoint."""
        return self.post("runs", run, "pause")

    def resume_run(self, run: Reference) -> Row:
        return self.post("runs", run, "resume")

    def retry_run(self, run: Reference) -> Row:
        """Retry a failed or cancelled run, from its last checkpoint if it has one.

        >>> for run in isoscope.all_runs("status:failed"):
        ...     isoscope.retry_run(run)
        """
        return self.post("runs", run, "retry")

    def move_run(self, run: Reference, to: str) -> Row:
        """Move a waiting run ``"first"``, ``"up"``, ``"down"`` or ``"last"``."""
        return self.post("runs", run, "move", json={"to": to})

    def prioritize_run(self, run: Reference, priority: int) -> Row:
        """Set the priority of a run; lower numbers go first."""
        return self.put("runs", run, "priority", json={"priority": priority})
