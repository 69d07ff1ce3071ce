"""Post-processing of embeddings over the API."""

from pathlib import Path
from typing import Any

from isoscope.remote.connection import Connection, Known, Row, path_of


class Postprocessings(Connection):
    """Methods that were tried on an embedding."""

    def postprocess(self, embedding: Known, method: str, **parameters: Any) -> Row:
        """Fit a method on one half of a sample of the rows, and have it judged by the other.

        >>> isoscope.postprocess(embedding, "soft_zca", eps=0.1)["status"]
        'queued'
        """
        body = {"method": method, "parameters": parameters}
        answer: Row = self.ask("POST", path_of("embeddings", embedding, "postprocessings"), json=body)
        return answer

    def postprocessings(self, embedding: Known) -> list[Row]:
        """Return what was tried on the vectors that are chosen now, newest first."""
        answer: list[Row] = self.ask("GET", path_of("embeddings", embedding, "postprocessings"))
        return answer

    def postprocessing(self, embedding: Known, postprocessing: Known) -> Row:
        """Return one trial, with results when its ``status`` is ``ready``."""
        answer: Row = self.ask("GET", path_of("embeddings", embedding, "postprocessings", postprocessing))
        return answer

    def delete_postprocessing(self, embedding: Known, postprocessing: Known) -> None:
        """Drop a trial in any state."""
        self.ask("DELETE", path_of("embeddings", embedding, "postprocessings", postprocessing))

    def download_map(self, embedding: Known, postprocessing: Known, target: str | Path) -> Path:
        """Write the fitted map as safetensors."""
        parts = ("embeddings", embedding, "postprocessings", postprocessing, "map.safetensors")
        return self.download(path_of(*parts), target)

    def make_embedding(self, embedding: Known, postprocessing: Known, name: str | None = None) -> Row:
        """Map all rows by a trial, as an embedding of its own."""
        path = path_of("embeddings", embedding, "postprocessings", postprocessing, "embedding")
        answer: Row = self.ask("POST", path, json={"name": name})
        return answer
