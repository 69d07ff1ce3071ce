"""Texts through a model, over the API."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope.client.connection import Connection, Progress, Reference, Row, id_of, name_of_folder
from isoscope.client.data import BUSY_STATUSES, POLL_SECONDS
from isoscope.core.beir_layout import list_beir_files
from isoscope.core.errors import InvalidError


class Encodings(Connection):
    """Texts, and the embeddings that a model makes of them."""

    def encode(self, file: str | Path, model: str, *, name: str | None = None, **settings: Any) -> Row:
        """Upload texts and encode them with a model; without ``text_columns`` the likeliest is taken.

        For a BEIR data set, a folder or a zip file, returns the corpus; its queries are encoded too.

        >>> encoding = isoscope.encode("texts.txt", model="all-MiniLM-L6-v2", poolings=["first", "mean"])
        >>> isoscope.layers(isoscope.wait_for_encoding(encoding))
        """
        texts = self.upload_texts(file, name=name)
        return self.launch_encoding(texts, {**likely_settings(texts), "model": model, **settings})

    def upload_texts(self, file: str | Path, *, name: str | None = None, progress: Progress | None = None) -> Row:
        """Upload a file of texts as a draft with ``columns``; for a BEIR data set the corpus, with ``qrels``."""
        path = Path(file)
        files = list_beir_files(path) if path.is_dir() else [path]
        display_name = name or (path.resolve().name if path.is_dir() else name_of_folder(path))
        return self.send_files(
            "/api/encodings", [("file", text_file) for text_file in files], {"name": display_name}, progress
        )

    def texts_of_dataset(self, dataset: Reference, split: str = "validation", *, name: str | None = None) -> Row:
        """Return a draft of the ``train`` or ``validation`` texts of a data set."""
        fields = {"dataset_id": id_of(dataset), "split": split, "name": name}
        form = {field: value for field, value in fields.items() if value is not None}
        return self.post("encodings", data=form)

    def encodings(self) -> list[Row]:
        return self.get_list("encodings")

    def encoding(self, encoding: Reference) -> Row:
        return self.get("encodings", encoding)

    def plan_encoding(self, encoding: Reference, config: Mapping[str, Any]) -> Row:
        """Return the embeddings, rows and bytes that a configuration would make."""
        return self.post("encodings", encoding, "plan", json=dict(config))

    def launch_encoding(self, encoding: Reference, config: Mapping[str, Any]) -> Row:
        """Encode the texts of a draft.

        >>> isoscope.launch_encoding(texts, {"model": "all-MiniLM-L6-v2", "text_columns": ["line"]})
        """
        return self.post("encodings", encoding, "launch", json=dict(config))

    def wait_for_encoding(self, encoding: Reference) -> Row:
        """Return an encoding once its layers are measured; raise InvalidError if it failed."""
        while (row := self.encoding(encoding))["status"] in BUSY_STATUSES:
            time.sleep(POLL_SECONDS)
        if row["status"] == "failed":
            raise InvalidError(f"{row['name']} could not be encoded: {row['error']}")
        while any(layer["status"] in BUSY_STATUSES for layer in self.layers(encoding)):
            time.sleep(POLL_SECONDS)
        return row

    def cancel_encoding(self, encoding: Reference) -> Row:
        return self.post("encodings", encoding, "cancel")

    def layers(self, encoding: Reference) -> list[Row]:
        """Return the embedding of each layer and pooling with its measurements."""
        return self.get_list("encodings", encoding, "layers")

    def delete_encoding(self, encoding: Reference) -> None:
        """Delete an encoding with the embeddings of its layers."""
        self.delete("encodings", encoding)


def likely_settings(texts: Mapping[str, Any]) -> Row:
    """Return the settings that the page would propose: the likeliest column, or a BEIR data set's texts."""
    if texts["qrels"]:
        return {"text_columns": ["text"], "max_rows": None}
    columns = texts["columns"]
    text_columns = [column["name"] for column in columns if column["kind"] == "text"] or [
        column["name"] for column in columns
    ]
    return {"text_columns": text_columns[:1]}
