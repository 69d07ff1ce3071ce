"""Data sets, embeddings and post-processing over the API."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from isoscope.client.connection import Connection, Progress, Reference, Row, id_of, name_of_folder, path_of
from isoscope.core.errors import InvalidError

# States of embeddings, encodings and tasks that a worker still changes.
BUSY_STATUSES = ("making", "inspecting", "measuring", "queued", "running")
POLL_SECONDS = 1.0


class Datasets(Connection):
    """Data sets of train, validation and test rows."""

    def upload_dataset(
        self,
        train: str | Path,
        validation: str | Path | None = None,
        *,
        test: str | Path | None = None,
        validation_fraction: float | None = None,
        test_fraction: float | None = None,
        split_seed: int = 0,
        split_column: str | None = None,
        split_values: Mapping[str, Sequence[str]] | None = None,
        quoting: str | None = None,
        name: str | None = None,
        progress: Progress | None = None,
    ) -> Row:
        """Upload train, validation and test rows: .tsv, .csv, .jsonl or .parquet.

        Scores on test rows are sealed: see ``open_test``. Instead of files, ``validation_fraction`` and
        ``test_fraction`` draw rows from the train rows by ``split_seed``, or ``split_column`` holds the split of each
        row. ``split_values`` maps splits to their values in that column, such as ``{"validation": ["dev"]}``.
        ``quoting`` of .tsv files is ``"text"`` or ``"quoted"``. Without a ``name``, ``RTE/train.tsv`` is called RTE.

        >>> isoscope.upload_dataset("train.tsv", "dev.tsv", test="test.tsv", name="MRPC")["n_test"]
        1725
        """
        files = [("train", train)]
        files += [(split, file) for split, file in (("validation", validation), ("test", test)) if file is not None]
        fractions = {"validation_fraction": validation_fraction, "test_fraction": test_fraction}
        form_fractions = {field: str(fraction) for field, fraction in fractions.items() if fraction is not None}
        form = {
            "name": name or name_of_folder(train),
            "split_column": split_column,
            **{f"split_{split}": ",".join(values) for split, values in (split_values or {}).items()},
            **form_fractions,
            "split_seed": str(split_seed) if form_fractions else None,
            "quoting": quoting,
        }
        return self.send_files("/api/datasets", files, form, progress)

    def hub_dataset(self, name: str, *, test: bool | None = None) -> Row:
        """Add a task of the Hub, such as ``mrpc``; ``test=False`` leaves its labeled test split out."""
        return self.post("datasets", "hub", json={"name": name, "test": test})

    def datasets(self) -> list[Row]:
        return self.get_list("datasets")

    def dataset(self, dataset: Reference) -> Row:
        return self.get("datasets", dataset)

    def find_dataset(self, name: str) -> Row:
        """Return the newest data set with a name or id; raise InvalidError if there is none."""
        datasets = self.datasets()
        match = next((dataset for dataset in datasets if name in (dataset["id"], dataset["name"])), None)
        if match is None:
            names = ", ".join(sorted({str(dataset["name"]) for dataset in datasets})) or "none yet"
            raise InvalidError(f"There is no data set {name!r} on {self.url}; there are: {names}.", "dataset_id")
        return match

    def read_dataset(self, dataset: Reference, quoting: str) -> Row:
        """Set how a data set's quotes are read, ``"text"`` or ``"quoted"``, before any experiment uses it."""
        return self.put("datasets", dataset, "quoting", json={"quoting": quoting})

    def delete_dataset(self, dataset: Reference) -> None:
        self.delete("datasets", dataset)


class Embeddings(Connection):
    """Uploaded embeddings and their measurements."""

    def upload(
        self,
        *files: str | Path,
        annotations: str | Path | None = None,
        name: str | None = None,
        commit: bool = True,
        progress: Progress | None = None,
    ) -> Row:
        """Upload vectors, in one file or in shards. They are measured at once unless ``commit`` is off.

        >>> isoscope.upload("part-1.npy", "part-2.npy", annotations="labels.csv", name="Reviews")["status"]
        'inspecting'
        """
        if not files:
            raise InvalidError("Expected a file of embeddings: name one.", "file")
        fields = [("file", file) for file in files] + ([("annotations", annotations)] if annotations else [])
        path = f"/api/embeddings{'?commit=auto' if commit else ''}"
        return self.send_files(path, fields, {"name": name}, progress)

    def embeddings(self, q: str | None = None, *, limit: int = 50, offset: int = 0, **search: Any) -> list[Row]:
        """Return embeddings, newest first; ``q`` searches names, files, notes and tags."""
        return self.get_page("/api/embeddings", q=q, limit=limit, offset=offset, **search)[0]

    def embedding(self, embedding: Reference) -> Row:
        return self.get("embeddings", embedding)

    def score(self, embedding: Reference) -> dict[str, Row]:
        """Wait for an embedding's measurements and return them by slug. Raise InvalidError for a draft or a failure.

        >>> isoscope.score(isoscope.upload("embeddings.npy"))["isoscore"]["value"]
        0.31
        """
        while (row := self.embedding(embedding))["status"] in BUSY_STATUSES:
            time.sleep(POLL_SECONDS)
        if row["status"] != "ready":
            raise InvalidError(f"{row['name']} is not measured: {row['error'] or 'it is a draft, commit it first.'}")
        return {measurement["measure"]: measurement for measurement in row["measurements"]}

    def describe_embedding(self, embedding: Reference, **change: Any) -> Row:
        """Change an embedding's ``name``, ``notes`` or ``tags``."""
        return self.patch("embeddings", embedding, json=patch_body(change))

    def select(self, embedding: Reference, selection: Mapping[str, Any], *, commit: bool = True) -> Row:
        """Choose the vectors, names and labels in an embedding's files. Measures at once unless ``commit`` is off.

        >>> isoscope.select(draft, {"vectors": "hidden", "labels": "class"})
        """
        query = {"commit": "auto"} if commit else {}
        return self.put("embeddings", embedding, "selection", params=query, json=dict(selection))

    def commit(self, embedding: Reference, *, similarity: str | None = None) -> Row:
        """Measure a draft, with neighbors by ``"cosine"``, ``"dot"`` or ``"euclidean"`` as ``similarity``."""
        query = {"similarity": similarity} if similarity else {}
        return self.post("embeddings", embedding, "commit", params=query)

    def findings(self, embedding: Reference) -> list[Row]:
        """Return what is wrong with an embedding, the most severe first."""
        return self.get_list("embeddings", embedding, "findings")

    def select_without(
        self,
        embedding: Reference,
        finding: str | None = None,
        *,
        rows: Sequence[int] = (),
        dimensions: Sequence[int] = (),
        name: str | None = None,
    ) -> Row:
        """Create and measure an embedding without a finding's rows and dimensions, or the given ones, counted from 0.

        >>> isoscope.select_without(embedding, rows=[3, 17], name="Reviews, cleaned")
        """
        body = {"finding": finding, "rows": list(rows), "dimensions": list(dimensions), "name": name}
        return self.post("embeddings", embedding, "selections", json=body)

    def figure_data(self, embedding: Reference, slug: str) -> Row:
        """Return the data of a figure that no measure holds: ``sample_size``, ``projection`` or ``neighbors``."""
        return self.get("embeddings", embedding, "figure-data", slug)

    def zeta_curve(self, embedding: Reference, source: str = "identity", **query: Any) -> Row:
        """Return IsoScore* at 101 values of zeta, shrunk toward the ``"identity"``, ``"sample"`` or ``"embedding"``."""
        return self.get("embeddings", embedding, "curves", "zeta", source=source, **query)

    def request_zeta_curve(self, embedding: Reference, source: Reference) -> Row:
        """Request the curve that shrinks toward another embedding's covariance; a worker computes it."""
        return self.post("embeddings", embedding, "curves", "zeta", json={"source_id": id_of(source)})

    def neighbors(self, embedding: Reference, name: str | None = None, *, text: str | None = None) -> Row:
        """Return the rows nearest to the row called ``name``, or to a ``text`` that was looked up."""
        query = {"name": name} if text is None else {"text": text}
        return self.get("embeddings", embedding, "neighbors", **query)

    def request_neighbors(self, embedding: Reference, text: str) -> Row:
        """Start to look up the rows nearest to a text; ``neighbors`` returns them once its ``status`` is ready.

        Only for embeddings that were encoded on the dashboard.
        """
        return self.post("embeddings", embedding, "neighbors", json={"text": text})

    def download_file(self, embedding: Reference, position: int, target: str | Path) -> Path:
        """Write a file of an embedding as it was uploaded; ``position`` counts its files from 0."""
        return self.download(path_of("embeddings", embedding, "files", position), target)

    def download_vectors(self, embedding: Reference, target: str | Path) -> Path:
        """Write the vectors to a target that ends in .npy or .safetensors."""
        suffix = Path(target).suffix
        if suffix not in (".npy", ".safetensors"):
            raise InvalidError(f"Expected a target that ends in .npy or .safetensors, got {target}.")
        return self.download(path_of("embeddings", embedding, f"vectors{suffix}"), target)

    def compare(self, *embeddings: Reference, to: str = "first") -> Row:
        """Return every measure of embeddings, and differences to the ``"first"`` one or to the ``"previous"`` one."""
        return self.get("compare", id=[id_of(embedding) for embedding in embeddings], to=to)

    def align(self, *embeddings: Reference, to: str = "first") -> list[Row]:
        """Start to compare embeddings of the same rows, row by row, with the first or with the ``"previous"`` one."""
        body = {"id": [id_of(embedding) for embedding in embeddings], "to": to}
        return cast("list[Row]", self.ask("POST", path_of("compare", "alignments"), json=body))

    def alignments(self, *embeddings: Reference, to: str = "first") -> list[Row]:
        """Return what ``align`` computed: CKA, shared neighbors, Procrustes residual and ``upgrade`` of each pair."""
        return self.get_list("compare", "alignments", id=[id_of(embedding) for embedding in embeddings], to=to)

    def moved_rows(
        self, first: Reference, second: Reference, *, by: str = "neighbors", limit: int = 100, offset: int = 0
    ) -> Row:
        """Return the rows that moved most between aligned embeddings, by shared ``"neighbors"`` or ``"residual"``."""
        ids = [id_of(first), id_of(second)]
        return self.get("compare", "rows", id=ids, by=by, limit=limit, offset=offset)

    def tags(self) -> list[str]:
        return self.get_list("tags")

    def trash_embedding(self, embedding: Reference) -> None:
        self.delete("embeddings", embedding)

    def restore_embedding(self, embedding: Reference) -> Row:
        return self.post("embeddings", embedding, "restore")

    def trash(self, *, limit: int = 50, offset: int = 0) -> Row:
        """Return the embeddings in the trash, and how many bytes deleting them would free."""
        return self.get("trash", limit=limit, offset=offset)

    def empty_trash(self) -> Row:
        """Permanently delete everything in the trash."""
        return self.delete("trash")

    def purge_embedding(self, embedding: Reference) -> Row:
        """Permanently delete one embedding in the trash."""
        return self.delete("trash", embedding)


class Postprocessings(Connection):
    """Post-processing methods that were tried on an embedding."""

    def postprocess(self, embedding: Reference, method: str, **parameters: Any) -> Row:
        """Fit a method on one half of a sample of the rows and evaluate it on the other.

        >>> isoscope.postprocess(embedding, "soft_zca", eps=0.1)["status"]
        'queued'
        """
        return self.post("embeddings", embedding, "postprocessings", json={"method": method, "parameters": parameters})

    def postprocessings(self, embedding: Reference) -> list[Row]:
        """Return the methods tried on an embedding's current selection, newest first."""
        return self.get_list("embeddings", embedding, "postprocessings")

    def postprocessing(self, embedding: Reference, postprocessing: Reference) -> Row:
        """Return one trial of a method, with results once its ``status`` is ``ready``."""
        return self.get("embeddings", embedding, "postprocessings", postprocessing)

    def delete_postprocessing(self, embedding: Reference, postprocessing: Reference) -> None:
        self.delete("embeddings", embedding, "postprocessings", postprocessing)

    def download_map(self, embedding: Reference, postprocessing: Reference, target: str | Path) -> Path:
        segments = ("embeddings", embedding, "postprocessings", postprocessing, "map.safetensors")
        return self.download(path_of(*segments), target)

    def make_embedding(self, embedding: Reference, postprocessing: Reference, name: str | None = None) -> Row:
        """Create an embedding of all rows, mapped by the method of a trial."""
        return self.post("embeddings", embedding, "postprocessings", postprocessing, "embedding", json={"name": name})


def patch_body(change: Mapping[str, Any]) -> Row:
    """Return changed fields as the body of a request, with tags as a list."""
    tags = change.get("tags")
    return dict(change) if tags is None else {**change, "tags": list(tags)}
