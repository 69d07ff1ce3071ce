from pathlib import Path

import numpy as np
import pytest

from isoscope.core.errors import InvalidError, UnsupportedFormatError
from isoscope.files.arrays import ArrayFile, StoredArray
from isoscope.files.matrix import inspect
from isoscope.files.table import ColumnTable
from isoscope.files.upload import NamedFile, Upload
from isoscope.files.upload_formats import (
    FORMATS,
    Format,
    Role,
    detect,
    formats_of,
    row_suffixes,
    suffixes,
    titles,
    usual_suffixes,
)

README = Path(__file__).parents[2] / "README.md"
X = np.arange(12, dtype="<f4").reshape(6, 2)


def open_toy(path, _):
    shape = (path.stat().st_size // 8, 2)
    return ArrayFile([StoredArray("x", shape, X.dtype, "float32", False, 4, lambda: path.open("rb"))])


def open_toy_table(path, _):
    return ColumnTable("text", lambda: ["a", "b"])


@pytest.fixture
def toy(monkeypatch):
    readers = {"vectors": f"{__name__}:open_toy", "table": f"{__name__}:open_toy_table"}
    record = Format("toy", ("Toy",), (".toy",), lambda head, _: head.startswith(b"TOY1"), **readers, holds_rows=True)
    monkeypatch.setitem(FORMATS, "toy", record)
    return record


def test_added_format_is_detected_read_and_named_in_errors(toy, tmp_path):
    path = tmp_path / "content"
    path.write_bytes(b"TOY1" + X.tobytes())
    assert detect(path, "anything.csv") is toy
    inspection = inspect(Upload((NamedFile(path, "x.toy"),)))
    assert (inspection.format, inspection.n, inspection.d, inspection.preview[1].values) == ("toy", 6, 2, [2, 3])
    assert [row[0] for row in detect(path, "rows.toy", Role.ROWS).open_table(path).rows()] == ["a", "b"]
    path.write_bytes(b"text")
    with pytest.raises(UnsupportedFormatError, match=r"Expected .*\.toy, got a file whose name ends in '.exotic'"):
        detect(path, "x.exotic", Role.ROWS)
    with pytest.raises(InvalidError, match=r"named \.toy, but its first bytes are not those of a toy file"):
        detect(path, "x.toy")


def test_pages_list_added_format(toy, client):
    assert "or Toy." in client.get("/").text
    page = client.get("/embeddings").text
    assert "GloVe or Toy, up to" in page
    assert page.count(".toy") == 2  # as a file of vectors and as one of names and labels
    assert ".toy" in client.get("/datasets").text
    assert ".toy" in client.get("/encodings").text
    endings = [file_format.suffixes[0] for file_format in formats_of(Role.VECTORS)]
    assert [ending for ending in endings if f"`{ending}`" not in README.read_text()] == [".toy"]


def test_every_format_has_reader_for_its_roles():
    for file_format in FORMATS.values():
        assert file_format.roles
        assert file_format.vectors or file_format.table
    assert usual_suffixes(Role.ANNOTATIONS) == ".npy, .parquet, .jsonl, .csv, .tsv or .txt"
    assert titles(Role.VECTORS) == "NumPy, safetensors, HDF5, Parquet, JSON lines, csv, tsv, word2vec or GloVe"
    assert suffixes(Role.ROWS) == [".parquet", ".jsonl", ".csv", ".tsv"]
    assert row_suffixes() == ".jsonl, .csv or .tsv, gzipped or not, or .parquet"
