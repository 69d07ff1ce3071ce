"""Data sets over the API."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from app.errors import InvalidError
from isoscope.remote.connection import Connection, Known, Progress, Row, path_of


class Datasets(Connection):
    """Train, validation and test rows that sweeps are of."""

    def upload_dataset(
        self,
        train: str | Path,
        validation: str | Path | None = None,
        *,
        test: str | Path | None = None,
        test_fraction: float | None = None,
        split_seed: int = 0,
        split_column: str | None = None,
        split_values: Mapping[str, Sequence[str]] | None = None,
        quoting: str | None = None,
        name: str | None = None,
        progress: Progress | None = None,
    ) -> Row:
        """Upload train, validation and test rows: .tsv, .csv, .jsonl or .parquet.

        Scores on test rows are sealed: see ``open_test``. Instead of a test file, ``test_fraction`` draws some of the
        train rows by ``split_seed``. Instead of a validation and a test file, ``split_column`` names the split of each
        row; ``split_values`` maps its values, such as ``{"validation": ["dev"]}``.

        Quotes of .tsv files enclose cells where every one does; ``quoting`` says otherwise: ``"text"`` or ``"quoted"``.

        >>> isoscope.upload_dataset("train.tsv", "dev.tsv", test="test.tsv", name="MRPC")["n_test"]
        1725
        """
        files = [("train", train)]
        files += [(split, file) for split, file in (("validation", validation), ("test", test)) if file is not None]
        given = {
            "name": name,
            "split_column": split_column,
            **{f"split_{split}": ",".join(values) for split, values in (split_values or {}).items()},
            "test_fraction": None if test_fraction is None else str(test_fraction),
            "split_seed": None if test_fraction is None else str(split_seed),
            "quoting": quoting,
        }
        answer: Row = self.send_files("/api/datasets", files, given, progress)
        return answer

    def hub_dataset(self, name: str, *, test: bool | None = None) -> Row:
        """Name a task of the Hub, such as ``mrpc``, where the server's workers reach it.

        Its test split is used where it has labels; ``test=False`` leaves it out.
        """
        answer: Row = self.ask("POST", "/api/datasets/hub", json={"name": name, "test": test})
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

    def read_dataset(self, dataset: Known, quoting: str) -> Row:
        """Read the quotes of its .tsv files as ``"text"`` or as ``"quoted"`` cells; no experiment may use it yet.

        >>> isoscope.read_dataset(dataset, "text")["columns"][0]["examples"]
        """
        answer: Row = self.ask("PUT", path_of("datasets", dataset, "quoting"), json={"quoting": quoting})
        return answer

    def delete_dataset(self, dataset: Known) -> None:
        """Delete a data set that no experiment uses."""
        self.ask("DELETE", path_of("datasets", dataset))
