"""Embeddings over the API: upload, measure, describe, compare, trash."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isoscope.core.errors import InvalidError
from isoscope.remote.connection import Connection, Known, Progress, Row, id_of, path_of

BUSY = ("making", "inspecting", "measuring")
LOOK_EVERY_SECONDS = 1.0


class Embeddings(Connection):
    """Matrices of vectors and what is measured of them."""

    def upload(
        self,
        *files: str | Path,
        annotations: str | Path | None = None,
        name: str | None = None,
        commit: bool = True,
        progress: Progress | None = None,
    ) -> Row:
        """Upload a file of vectors, or several that are one matrix; unless ``commit`` is off it is measured at once.

        >>> isoscope.upload("embeddings.npy")["status"]
        'inspecting'
        >>> isoscope.upload("part-1.npy", "part-2.npy", annotations="labels.csv", name="Reviews")
        """
        if not files:
            raise InvalidError("Expected a file of embeddings: name one.", "file")
        fields = [("file", file) for file in files] + ([("annotations", annotations)] if annotations else [])
        path = f"/api/embeddings{'?commit=auto' if commit else ''}"
        answer: Row = self.send_files(path, fields, {"name": name}, progress)
        return answer

    def embeddings(self, q: str | None = None, *, limit: int = 50, offset: int = 0, **search: Any) -> list[Row]:
        """Return embeddings, newest first; ``q`` is words of their names, files, notes and tags.

        >>> isoscope.embeddings("reviews", sort="-isoscore")[0]["isoscore"]
        0.31
        """
        return self.listed("/api/embeddings", q=q, limit=limit, offset=offset, **search)[0]

    def embedding(self, embedding: Known) -> Row:
        """Return one embedding with its measurements, which are there when its ``status`` is ``ready``."""
        answer: Row = self.ask("GET", path_of("embeddings", embedding))
        return answer

    def wait_for_embedding(self, embedding: Known) -> Row:
        """Return an embedding once a worker has done what it does with it: ``ready``, ``draft`` or ``failed``."""
        while (found := self.embedding(embedding))["status"] in BUSY:
            time.sleep(LOOK_EVERY_SECONDS)
        return found

    def score(self, embedding: Known) -> dict[str, Row]:
        """Return what was measured of an embedding by the measures' slugs, once it is measured.

        >>> isoscope.score(isoscope.upload("embeddings.npy"))["isoscore"]["value"]
        0.31
        """
        found = self.wait_for_embedding(embedding)
        if found["status"] != "ready":
            raise InvalidError(
                f"{found['name']} is not measured: {found['error'] or 'it is a draft, commit it first.'}"
            )
        return {one["measure"]: one for one in found["measurements"]}

    def describe_embedding(
        self,
        embedding: Known,
        *,
        name: str | None = None,
        notes: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Row:
        """Rename an embedding, write its notes, tag it; what is None stays."""
        change = {"name": name, "notes": notes, "tags": None if tags is None else list(tags)}
        answer: Row = self.ask("PATCH", path_of("embeddings", embedding), json=change)
        return answer

    def select(self, embedding: Known, selection: Mapping[str, Any], *, commit: bool = True) -> Row:
        """Choose vectors, names and labels of what an embedding's files hold; measured at once unless told not to.

        >>> isoscope.select(draft, {"vectors": "hidden", "labels": "class"})
        """
        query = {"commit": "auto"} if commit else {}
        answer: Row = self.ask("PUT", path_of("embeddings", embedding, "selection"), params=query, json=dict(selection))
        return answer

    def commit(self, embedding: Known) -> Row:
        """Have a draft measured."""
        answer: Row = self.ask("POST", path_of("embeddings", embedding, "commit"))
        return answer

    def figure_data(self, embedding: Known, slug: str) -> Row:
        """Return what a figure shows and no measure holds: ``sample_size``, ``projection`` or ``neighbours``."""
        answer: Row = self.ask("GET", path_of("embeddings", embedding, "figure-data", slug))
        return answer

    def zeta_curve(self, embedding: Known, source: str = "identity", **query: Any) -> Row:
        """Return IsoScore* at 101 values of zeta, shrunk towards the identity, all rows or another embedding."""
        answer: Row = self.ask(
            "GET", path_of("embeddings", embedding, "curves", "zeta"), params={"source": source, **query}
        )
        return answer

    def request_zeta_curve(self, embedding: Known, source: Known) -> Row:
        """Have the curve computed that shrinks towards another embedding's covariance."""
        answer: Row = self.ask(
            "POST", path_of("embeddings", embedding, "curves", "zeta"), json={"source_id": id_of(source)}
        )
        return answer

    def neighbors(self, embedding: Known, name: str) -> Row:
        """Return the rows nearest to the row of a name, once it was looked up."""
        answer: Row = self.ask("GET", path_of("embeddings", embedding, "neighbors"), params={"name": name})
        return answer

    def request_neighbors(self, embedding: Known, name: str) -> Row:
        """Have a row looked up by its name among all rows; ask again until its ``status`` is ready or failed."""
        answer: Row = self.ask("POST", path_of("embeddings", embedding, "neighbors"), json={"name": name})
        return answer

    def download_file(self, embedding: Known, position: int, target: str | Path) -> Path:
        """Write a file of an embedding as it was uploaded; they count from 0."""
        return self.download(path_of("embeddings", embedding, "files", position), target)

    def download_vectors(self, embedding: Known, target: str | Path) -> Path:
        """Write the vectors as the suffix of the target says, .npy or .safetensors.

        >>> isoscope.download_vectors(embedding, "vectors.safetensors")
        """
        suffix = Path(target).suffix
        if suffix not in (".npy", ".safetensors"):
            raise InvalidError(f"Expected a target that ends in .npy or .safetensors, got {target}.")
        return self.download(path_of("embeddings", embedding, f"vectors{suffix}"), target)

    def compare(self, *embeddings: Known) -> Row:
        """Return every measure of two to eight embeddings, and differences to the first with their intervals."""
        answer: Row = self.ask("GET", "/api/compare", params={"id": [id_of(one) for one in embeddings]})
        return answer

    def tags(self) -> list[str]:
        """Return the tags of all embeddings."""
        answer: list[str] = self.ask("GET", "/api/tags")
        return answer

    def trash_embedding(self, embedding: Known) -> None:
        """Put an embedding into the trash."""
        self.ask("DELETE", path_of("embeddings", embedding))

    def restore_embedding(self, embedding: Known) -> Row:
        """Take an embedding out of the trash."""
        answer: Row = self.ask("POST", path_of("embeddings", embedding, "restore"))
        return answer

    def trash(self, *, limit: int = 50, offset: int = 0) -> Row:
        """Return what is in the trash, and how much deleting it would free."""
        answer: Row = self.ask("GET", "/api/trash", params={"limit": limit, "offset": offset})
        return answer

    def empty_trash(self) -> Row:
        """Delete everything in the trash for good."""
        answer: Row = self.ask("DELETE", "/api/trash")
        return answer

    def purge_embedding(self, embedding: Known) -> Row:
        """Delete an embedding in the trash for good."""
        answer: Row = self.ask("DELETE", path_of("trash", embedding))
        return answer
