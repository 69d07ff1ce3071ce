import json

import pytest

from app.db.encoding import EncodingConfig
from isoscope.core.errors import InvalidError
from workers.embeddings.encoder import load_texts

TABLE = 'a,b,gold\n"one, two",x,1\n,y,0\nthree,z,1.0\nfour,,\n'


def config(**settings):
    return EncodingConfig.model_validate({"model": "any", "text_columns": ["a"], **settings})


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "stored"
    path.write_text(TABLE)
    return path


def test_rows_without_text_are_left_out_and_counted(table):
    texts = load_texts(table, "rows.csv", config(label_column="gold"))
    assert texts.rows == [("one, two",), ("three",), ("four",)]
    assert (texts.row_numbers, texts.labels, texts.n_empty) == ([1, 3, 4], ["1", "1", ""], 1)
    texts = load_texts(table, "rows.csv", config(text_columns=["a", "b"]))
    assert (texts.rows, texts.row_numbers, texts.labels) == ([("one, two", "x"), ("three", "z")], [1, 3], None)
    assert {column: list(values) for column, values in texts.annotations().items()} == {
        "name": ["one, two / x", "three / z"]
    }


def test_ids_are_normalized_as_in_ground_truth(tmp_path):
    (path := tmp_path / "stored").write_text('{"_id": 3.0, "a": "x"}\n{"_id": 4, "a": ""}\n{"_id": " d5", "a": "y"}\n')
    texts = load_texts(path, "t.jsonl", config(), ids="_id")
    assert texts.ids == ["3", "d5"]
    assert list(texts.annotations()) == ["name", "id"]


def test_text_file_is_read_by_line_and_empty_column_refused(tmp_path):
    (path := tmp_path / "stored").write_text("\ufeffone\n\n  \ntwo\n", encoding="utf-8")
    texts = load_texts(path, "texts.txt", config(text_columns=["line"]))
    assert (texts.rows, texts.row_numbers, texts.n_empty) == ([("one",), ("two",)], [1, 4], 2)
    (path := tmp_path / "stored").write_text("a,b\n,x\n ,y\n")
    with pytest.raises(InvalidError, match=r"None of the 2 rows of t\.csv has text in 'a': choose another column\."):
        load_texts(path, "t.csv", config())


def test_texts_are_sampled_by_seed_and_names_are_short(tmp_path):
    (path := tmp_path / "stored").write_text("".join(f"text {i}\n" for i in range(1, 101)))
    drawn = [load_texts(path, "t.txt", config(text_columns=["line"], max_rows=10, seed=s)) for s in (0, 0, 1)]
    assert drawn[0].row_numbers == sorted(drawn[0].row_numbers) == drawn[1].row_numbers != drawn[2].row_numbers
    assert drawn[0].rows == [(f"text {number}",) for number in drawn[0].row_numbers]
    assert len(drawn[0]) == 10
    (path := tmp_path / "stored").write_text(json.dumps({"a": "x\n\ty \ud800 " + 100 * "long "}) + "\n")
    (name,) = load_texts(path, "t.jsonl", config()).annotations()["name"]
    assert len(name) == 80
    assert name.startswith("x y ? long")
    assert name.endswith("…")
