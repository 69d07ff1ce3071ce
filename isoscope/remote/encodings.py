"""Encodings over the API: texts through a model, every layer an embedding."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope.core.errors import InvalidError
from isoscope.remote.connection import Connection, Known, Progress, Row, id_of, path_of

BUSY = ("queued", "running")
LOOK_EVERY_SECONDS = 1.0


class Encodings(Connection):
    """Texts, and the embeddings of each layer that a model makes of them."""

    def encode(self, file: str | Path, model: str, *, name: str | None = None, **settings: Any) -> Row:
        """Upload a file of texts and put them through a model; without ``text_columns`` the likeliest is taken.

        >>> encoding = isoscope.encode("texts.txt", model="all-MiniLM-L6-v2", poolings=["first", "mean"])
        >>> isoscope.layers(isoscope.wait_for_encoding(encoding))
        """
        texts = self.upload_texts(file, name=name)
        return self.launch_encoding(texts, {"text_columns": likely_columns(texts), "model": model, **settings})

    def upload_texts(self, file: str | Path, *, name: str | None = None, progress: Progress | None = None) -> Row:
        """Upload a file of texts: a draft, whose ``columns`` say what is in it."""
        answer: Row = self.send_files("/api/encodings", [("file", file)], {"name": name}, progress)
        return answer

    def texts_of_dataset(self, dataset: Known, split: str = "validation", *, name: str | None = None) -> Row:
        """Take the texts of a data set, its ``train`` or its ``validation`` rows: a draft."""
        fields = {"dataset_id": id_of(dataset), "split": split, "name": name}
        given = {field: value for field, value in fields.items() if value is not None}
        answer: Row = self.ask("POST", "/api/encodings", data=given)
        return answer

    def encodings(self) -> list[Row]:
        """Return all encodings, newest first."""
        answer: list[Row] = self.ask("GET", "/api/encodings")
        return answer

    def encoding(self, encoding: Known) -> Row:
        """Return one encoding and how far it is."""
        answer: Row = self.ask("GET", path_of("encodings", encoding))
        return answer

    def plan_encoding(self, encoding: Known, config: Mapping[str, Any]) -> Row:
        """Return what a configuration would make: embeddings, rows, bytes. Nothing is launched."""
        answer: Row = self.ask("POST", path_of("encodings", encoding, "plan"), json=dict(config))
        return answer

    def launch_encoding(self, encoding: Known, config: Mapping[str, Any]) -> Row:
        """Put the texts of a draft through a model.

        >>> isoscope.launch_encoding(texts, {"model": "all-MiniLM-L6-v2", "text_columns": ["line"]})
        """
        answer: Row = self.ask("POST", path_of("encodings", encoding, "launch"), json=dict(config))
        return answer

    def wait_for_encoding(self, encoding: Known) -> Row:
        """Return an encoding once it has ended; raise with its error where it failed."""
        while (found := self.encoding(encoding))["status"] in BUSY:
            time.sleep(LOOK_EVERY_SECONDS)
        if found["status"] == "failed":
            raise InvalidError(f"{found['name']} could not be encoded: {found['error']}")
        return found

    def cancel_encoding(self, encoding: Known) -> Row:
        """Stop one that waits or runs."""
        answer: Row = self.ask("POST", path_of("encodings", encoding, "cancel"))
        return answer

    def layers(self, encoding: Known) -> list[Row]:
        """Return the embedding of each layer and pooling with its measurements."""
        answer: list[Row] = self.ask("GET", path_of("encodings", encoding, "layers"))
        return answer

    def delete_encoding(self, encoding: Known) -> None:
        """Delete an encoding with the embeddings of its layers."""
        self.ask("DELETE", path_of("encodings", encoding))


def likely_columns(texts: Mapping[str, Any]) -> list[str]:
    """Return the column that the page would propose: the first that looks like texts, else the first."""
    columns = texts["columns"]
    likely = [column["name"] for column in columns if column["kind"] == "text"] or [c["name"] for c in columns]
    return likely[:1]
