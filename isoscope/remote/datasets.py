"""Data sets over the API."""

from pathlib import Path

from app.errors import InvalidError
from isoscope.remote.connection import Connection, Known, Progress, Row, path_of


class Datasets(Connection):
    """Train and validation rows that sweeps are of."""

    def upload_dataset(
        self,
        train: str | Path,
        validation: str | Path,
        *,
        name: str | None = None,
        progress: Progress | None = None,
    ) -> Row:
        """Upload train and validation rows: .tsv, .csv, .jsonl or .parquet.

        >>> isoscope.upload_dataset("train.tsv", "dev.tsv", name="CoLA")["n_train"]
        8551
        """
        files = [("train", train), ("validation", validation)]
        answer: Row = self.send_files("/api/datasets", files, {"name": name}, progress)
        return answer

    def hub_dataset(self, name: str) -> Row:
        """Name a task of the Hub, such as ``sst2``, where the server's workers reach it."""
        answer: Row = self.ask("POST", "/api/datasets/hub", json={"name": name})
        return answer

    def datasets(self) -> list[Row]:
        """Return all data sets, newest first."""
        answer: list[Row] = self.ask("GET", "/api/datasets")
        return answer

    def dataset(self, dataset: Known) -> Row:
        """Return one data set with its columns."""
        answer: Row = self.ask("GET", path_of("datasets", dataset))
        return answer

    def find_dataset(self, name: str) -> Row:
        """Return the data set of a name or an id, the newest of several.

        >>> isoscope.find_dataset("CoLA")["id"]
        """
        known = self.datasets()
        found = next((one for one in known if name in (one["id"], one["name"])), None)
        if found is None:
            names = ", ".join(sorted({str(one["name"]) for one in known})) or "none yet"
            raise InvalidError(f"There is no data set {name!r} on {self.url}; there are: {names}.", "dataset_id")
        return found

    def delete_dataset(self, dataset: Known) -> None:
        """Delete a data set that no experiment uses."""
        self.ask("DELETE", path_of("datasets", dataset))
