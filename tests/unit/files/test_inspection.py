import json
import os
from pathlib import Path

import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.matrix import Inspection, inspect
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload

X = np.random.default_rng(0).standard_normal((40, 10)).astype(np.float32)
WIDE = np.random.default_rng(1).standard_normal((50, 529))


def inspected(tmp_path, x=None, selection=None, **arrays):
    path = tmp_path / "content"
    with path.open("wb") as stream:
        if x is None:
            np.savez(stream, **arrays)
        else:
            np.save(stream, x)
    return inspect(Upload((NamedFile(path, "x"),)), selection)


def test_inspection_describes_array(tmp_path):
    inspection = inspected(tmp_path, X)
    assert (inspection.format, inspection.n, inspection.d, inspection.dtype) == ("npy", 40, 10, "float32")
    assert inspection.selection == Selection(vectors="array")
    assert [row.values for row in inspection.preview] == X[:5, :8].tolist()
    assert (inspection.n_nonfinite, inspection.n_zero, inspection.n_duplicate, inspection.warnings) == (0, 0, 0, [])
    inspection = inspected(tmp_path, np.tile(X, (500, 1)))
    assert (inspection.n, inspection.n_duplicate, len(inspection.preview)) == (20_000, 20_000 - 40, 5)
    inspection = inspected(tmp_path, X, Selection(vectors="array", transpose=True))
    assert (inspection.n, inspection.d) == (10, 40)
    (warning,) = inspected(tmp_path, np.stack([X, X, X])).warnings
    assert "read as layers x rows x columns. Layer 2 of 0 to 2 is measured." in warning


def test_inspection_survives_json(tmp_path):
    x = X.copy()
    x[0, :3] = [np.nan, np.inf, -np.inf]
    inspection = inspected(tmp_path, x)
    assert inspection.preview[0].values[:3] == [None, None, None]
    text = inspection.model_dump_json()
    json.loads(text, parse_constant=pytest.fail)
    assert Inspection.model_validate_json(text) == inspection


def test_names_and_labels_are_selected_and_previewed(tmp_path):
    inspection = inspected(tmp_path, vectors=X, word=np.array([f"w{i}" for i in range(40)]), label=np.arange(40) % 3)
    assert inspection.selection == Selection(vectors="vectors", names="word", labels="label")
    rows = [("w0", "0"), ("w1", "1"), ("w2", "2"), ("w3", "0")]
    assert [(row.name, row.label) for row in inspection.preview[:4]] == rows
    words = np.array([f"w{i}" for i in range(5000)])
    inspection = inspected(tmp_path, x=None, vectors=np.ones((5000, 2)), words=words)
    assert inspection.selection.labels is None
    with pytest.raises(InvalidError, match=r"'words' has more than 1,000 different values, which looks like names"):
        Selection(vectors="vectors", labels="words").check(inspection)


def test_selection_is_inspected_and_checked(tmp_path):
    inspection = inspected(tmp_path, a=X, b=X[:, :3], selection=Selection(vectors="b", transpose=True))
    assert (inspection.n, inspection.d) == (3, 40)
    assert [part.name for part in inspection.parts] == ["a", "b"]
    np.testing.assert_array_equal([row.values for row in inspection.preview], X[:8, :3].T)
    stored = Inspection.model_validate(inspected(tmp_path, a=X).model_dump(mode="json"))
    Selection(vectors="a", transpose=True).check(stored)
    with pytest.raises(InvalidError, match="The file has no array 'b'") as raised:
        Selection(vectors="b").check(stored)
    assert raised.value.field == "vectors"


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (X[:1], "There is one row only: every measure of spread needs at least two."),
        (X[:, :1], "There is one column only: isotropy compares dimensions, so it is not defined for one."),
        (X[:7], "7 rows are fewer than 10 dimensions: plain IsoScore is biased low. "),
        (WIDE, "This looks transposed: 50 is a usual number of dimensions and 529 is not. "),
        (np.vstack([X, 0 * X[:2]]), "Rows of zeros: 2. They have no direction, so they have no cosine. "),
        (np.vstack([X, X[:3]]), "Duplicate rows: 3. They count more in every measure except"),
        (np.vstack([X, [[np.nan] * 10]]), "Left out, because of NaN, infinity or an empty cell: 1 of 41 rows."),
        (X * np.nan, "Every row has NaN, infinity or an empty cell, so nothing can be measured. Find where they"),
    ],
)
def test_doubtful_numbers_give_a_warning(tmp_path, x, sentence):
    assert any(warning.startswith(sentence) for warning in inspected(tmp_path, x).warnings)


def test_table_is_inspected_by_column(tmp_path):
    path = tmp_path / "content"
    path.write_text("word,label,a,b\nking,0,1.5,2\nqueen,0,,4\npawn,1,1.5,2\nrook,1,0,0\n")
    inspection = inspect(Upload((NamedFile(path, "table.csv"),)))
    assert inspection.parts == []
    assert inspection.numeric_columns == ["a", "b"]
    assert inspection.selection == Selection(vectors=["a", "b"], names="word", labels="label")
    assert (inspection.n, inspection.d, inspection.dtype) == (4, 2, "float64")
    assert (inspection.n_nonfinite, inspection.n_zero, inspection.n_duplicate) == (1, 1, 1)
    assert inspection.preview[1].model_dump() == {"name": "queen", "label": "0", "values": [None, 4.0]}


@pytest.mark.skipif("ISOSCOPE_BENCH_DATA" not in os.environ, reason="ISOSCOPE_BENCH_DATA is not set")
def test_reference_matrix_is_inspected():
    path = Path(os.environ["ISOSCOPE_BENCH_DATA"]) / "embeddings" / "word2vec_googlenews_300d_8k.npz"
    inspection = inspect(Upload((NamedFile(path, path.name),)))
    assert (inspection.n, inspection.d, inspection.dtype) == (8000, 300, "float32")
    assert inspection.selection == Selection(vectors="vectors", names="words")
    assert (inspection.n_nonfinite, inspection.n_zero, inspection.n_duplicate, inspection.warnings) == (0, 0, 0, [])
    assert [row.name for row in inspection.preview] == ["in", "for", "that", "is", "on"]


def test_integer_column_among_fractions_is_suggested_as_labels(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["a,b,c,gold", *(f"{i}.5,{i / 7},0.25,{i % 3}" for i in range(12))]))
    upload = Upload((NamedFile(path, path.name),))
    inspection = inspect(upload)
    assert inspection.d == 4
    assert inspection.warnings[-1].startswith("'gold' holds whole numbers, 3 different ones, and the other columns")
    again = inspect(upload, Selection(vectors=inspection.selection.vectors, labels="gold"))
    assert again.d == 3
    assert not any("gold" in warning for warning in again.warnings)
