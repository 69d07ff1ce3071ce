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
        """Upload texts and encode them with a model, by default those of the likeliest column.

        A BEIR data set is a folder or a zip file. Its queries are encoded too; the encoding of its corpus is returned.

        >>> encoding = isoscope.encode("texts.txt", model="all-MiniLM-L6-v2", poolings=["first", "mean"])
        >>> isoscope.layers(isoscope.wait_for_encoding(encoding))
        """
        texts = self.upload_texts(file, name=name)
        return self.launch_encoding(texts, {**likely_settings(texts), "model": model, **settings})

    def upload_texts(self, file: str | Path, *, name: str | None = None, progress: Progress | None = None) -> Row:
        """Upload texts and return a draft with their ``columns``, or of a BEIR data set its corpus with ``qrels``."""
        path = Path(file)
        files = list_beir_files(path) if path.is_dir() else [path]
        display_name = name or (path.resolve().name if path.is_dir() else name_of_folder(path))
        return self.send_files(
            "/api/encodings", [("file", text_file) for text_file in files], {"name": display_name}, progress
        )

    def texts_of_dataset(self, dataset: Reference, split: str = "validation", *, name: str | None = None) -> Row:
        """Create a draft of the ``train`` or ``validation`` texts of a data set."""
        fields = {"dataset_id": id_of(dataset), "split": split, "name": name}
        form = {field: value for field, value in fields.items() if value is not None}
        return self.post("encodings", data=form)

    def encodings(self) -> list[Row]:
        return self.get_list("encodings")

    def encoding(self, encoding: Reference) -> Row:
        return self.get("encodings", encoding)

    def plan_encoding(self, encoding: Reference, config: Mapping[str, Any]) -> Row:
        """Return how many embeddings, rows and bytes a configuration would make, without launching it."""
        return self.post("encodings", encoding, "plan", json=dict(config))

    def launch_encoding(self, encoding: Reference, config: Mapping[str, Any]) -> Row:
        """Encode the texts of a draft.

        >>> isoscope.launch_encoding(texts, {"model": "all-MiniLM-L6-v2", "text_columns": ["line"]})
        """
        return self.post("encodings", encoding, "launch", json=dict(config))

    def wait_for_encoding(self, encoding: Reference) -> Row:
        """Wait until an encoding's layers are measured and return the encoding; raise InvalidError if it failed."""
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
        """Return the embedding of each layer and pooling, with its measurements."""
        return self.get_list("encodings", encoding, "layers")

    def delete_encoding(self, encoding: Reference) -> None:
        """Delete an encoding with the embeddings of its layers."""
        self.delete("encodings", encoding)


def likely_settings(texts: Mapping[str, Any]) -> Row:
    """Return the settings that the page proposes: the first column, preferably of texts, or all of a BEIR corpus."""
    if texts["qrels"]:
        return {"text_columns": ["text"], "max_rows": None}
    columns = texts["columns"]
    text_columns = [column for column in columns if column["kind"] == "text"]
    return {"text_columns": [column["name"] for column in (text_columns or columns)[:1]]}
