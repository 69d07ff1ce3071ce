"""Experiments as files: taken away from one dashboard, and brought to another."""

import time
from collections.abc import Callable
from pathlib import Path

from isoscope.remote.connection import Known, Progress, RefusedError, Row, path_of
from isoscope.remote.experiments import Experiments

BUSY = ("queued", "running", "removing")
LOOK_EVERY_SECONDS = 1.0


class Imports(Experiments):
    """Exports, and imports while they are checked and written."""

    def export_experiment(self, experiment: Known, target: str | Path) -> Path:
        """Write an experiment as a zip file that another dashboard takes.

        >>> there.import_experiment(here.export_experiment(experiment, "cola.zip"))
        """
        return self.download(path_of("experiments", experiment, "export"), target)

    def import_experiment(
        self,
        file: str | Path,
        *,
        wait: bool = True,
        told: Callable[[Row], object] | None = None,
        progress: Progress | None = None,
    ) -> Row:
        """Import an experiment that was exported, and return it; without ``wait``, the import as it is being queued.

        ``told`` is called with the import whenever it has changed, ``progress`` with the bytes of each part sent.
        """
        sent: Row = self.send_files("/api/experiments/import", [("file", file)], {}, progress)
        return self.wait_for_import(sent, told) if wait else sent

    def wait_for_import(self, sent: Known, told: Callable[[Row], object] | None = None) -> Row:
        """Return the experiment of an import once all of it is there; raise with the error where it failed."""
        before: Row | None = None
        while (found := self._patiently(self.show_import, sent))["status"] in BUSY:
            if told is not None and found != before:
                told(found)
            before = found
            time.sleep(LOOK_EVERY_SECONDS)
        if found["status"] == "finished":
            return self.experiment(found["experiment_id"])
        raise RefusedError(found["error"] or f"The import of {found['filename']} was cancelled.", "file", status=422)

    def imports(self) -> list[Row]:
        """Return the latest imports, newest first."""
        answer: list[Row] = self.ask("GET", "/api/imports")
        return answer

    def show_import(self, sent: Known) -> Row:
        """Return an import and how many of its rows are written."""
        answer: Row = self.ask("GET", path_of("imports", sent))
        return answer

    def cancel_import(self, sent: Known) -> Row:
        """Cancel a queued or running import and remove what it has written."""
        answer: Row = self.ask("POST", path_of("imports", sent, "cancel"))
        return answer
