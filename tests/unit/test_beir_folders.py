from pathlib import Path

import pytest

from isoscope.client import Isoscope
from isoscope.client.encodings import likely_settings
from isoscope.core.errors import InvalidError


@pytest.fixture
def requests_sent(monkeypatch):
    """Collect the file names and fields that the client would send."""
    calls = []

    def send_files(self, path, files, fields, progress=None):
        calls.append((path, [(field, Path(file).name) for field, file in files], fields["name"]))

    monkeypatch.setattr(Isoscope, "send_files", send_files)
    return calls


def test_folder_is_uploaded_as_its_files_under_its_name(tmp_path, requests_sent):
    folder = tmp_path / "scifact"
    (folder / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "readme.md", "qrels/dev.tsv", "qrels/test.tsv"):
        (folder / name).touch()
    with Isoscope("http://127.0.0.1:9") as isoscope:
        isoscope.upload_texts(folder)
        isoscope.upload_texts(tmp_path / "scifact.zip", name="SciFact")
        with pytest.raises(InvalidError, match="is no BEIR data set"):
            isoscope.upload_texts(tmp_path)
    names = ["corpus.jsonl", "queries.jsonl", "dev.tsv", "test.tsv"]
    assert requests_sent == [
        ("/api/encodings", [("file", name) for name in names], "scifact"),
        ("/api/encodings", [("file", "scifact.zip")], "SciFact"),
    ]


def test_beir_corpus_is_encoded_without_row_limit():
    columns = [{"name": "_id", "kind": "text"}, {"name": "text", "kind": "text"}]
    assert likely_settings({"columns": columns[1:], "qrels": []}) == {"text_columns": ["text"]}
    settings = likely_settings({"columns": columns, "qrels": [{"split": "test"}]})
    assert settings == {"text_columns": ["text"], "max_rows": None}
