import json

import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.contents import Part
from isoscope.files.jsonl import open_table, open_vectors


def read(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_text(content, newline="")
    table = open_table(path)
    return table.columns, [list(row) for row in table.rows()]


def test_objects_are_rows_and_answers_stay_json(tmp_path):
    assert read(tmp_path, '{"text": "a", "label": 1}\n\n{"label": 0.5, "text": "b", "flag": true}\n') == (
        ["text", "label", "flag"],
        [["a", 1, None], ["b", 0.5, True]],
    )
    assert read(tmp_path, '{"a": 1, "b": 2}\n{"a": 3, "b": [4]}\n{"a": 5, "c": {}}\n') == (["a"], [[1], [3], [5]])
    assert read(tmp_path, '{"a": ""}\n{"a": null}\n{"a": NaN}\n{"a": " "}\n{"a": "x"}\n')[1] == [*[[None]] * 4, ["x"]]
    assert read(tmp_path, '{"a": "x\\ud800y\\u0000z"}\n')[1] == [["x?y\ufffdz"]]
    text = '{"text": ["b"], "answer_start": [2]}'
    none = '{"text": [], "answer_start": []}'
    lines = [f'{{"q": "a", "answers": {value}}}\n' for value in (ANSWERS, "null", none, text)]
    assert read(tmp_path, "".join(lines)) == (["q", "answers"], [["a", text], ["a", None], ["a", None], ["a", text]])
    broken = ANSWERS.replace("[2]", "[2, 3]")
    with pytest.raises(InvalidError, match="Line 3 holds no answers under 'a': expected a list of texts and a list of"):
        read(tmp_path, f'{{"a": {ANSWERS}}}\n\n{{"a": {broken}}}\n')


ANSWERS = '{"text": ["b"], "answer_start": [2], "exact": [true]}'


@pytest.mark.parametrize("value", ['"b"', "3", "[1]", "{}", '{"text": ["b"]}', "[" + ANSWERS + "]"])
def test_mixed_answers_are_no_column(tmp_path, value):
    assert read(tmp_path, f'{{"q": 1, "a": {ANSWERS}}}\n{{"q": 2, "a": {value}}}\n') == (["q"], [[1], [2]])
    assert read(tmp_path, f'{{"q": 1, "a": {value}}}\n{{"q": 2, "a": {ANSWERS}}}\n') == (["q"], [[1], [2]])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a": 1}\n{"a": \n', r"Line 2 is not JSON \(.*\): write one whole object a line"),
        ("[1, 2]\n", r"Line 1 holds list where an object belongs: write one object a line"),
        ("3\n", "Line 1 holds int where an object belongs"),
        ('{"a": ' + "[" * 100_000 + "\n", "Line 1 is nested too deeply: write objects whose values are text"),
        ('{"a": ' + "9" * 5000 + "}\n", r"Line 1 is not JSON \(Exceeds the limit"),
        ('{"a": [1]}\n', "No key of the objects holds text or numbers in every line"),
        ("\n\n", "No key of the objects holds text or numbers"),
        ('{"\\ud800": 1}\n', "is not Unicode text: give the column another name"),
        ("{" + ", ".join(f'"k{i}": 1' for i in range(1001)) + "}\n", "The file has 1,001 columns, more than 1,000"),
    ],
)
def test_invalid_lines_are_refused(tmp_path, content, sentence):
    with pytest.raises(InvalidError, match=sentence):
        read(tmp_path, content)


def opened(tmp_path, *lines):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return open_vectors(path)


def matrix(contents, vectors):
    return np.concatenate(list(contents.rows(vectors, 2)))


def test_lists_are_vectors_and_scalars_are_names_and_labels(tmp_path):
    contents = opened(
        tmp_path,
        {"id": 7, "text": "king", "vector": [0.5, 1], "score": 0.25},
        {"vector": [2, None], "id": 8, "text": " queen "},
        '{"id": 9, "text": null, "vector": [NaN, -Infinity], "flag": true}',
    )
    assert contents.parts == [Part(name="vector", n=3, d=2, dtype="float64")]
    assert contents.numeric_columns == []
    np.testing.assert_array_equal(matrix(contents, "vector"), [[0.5, 1], [2, np.nan], [np.nan, np.nan]])
    assert [annotation.name for annotation in contents.annotations] == ["text", "flag", "id"]
    assert list(contents.values("text")) == ["king", "queen", ""]
    assert list(contents.values("id")) == ["7", "8", "9"]
    contents = opened(
        tmp_path, {"ids": [1, 2], "vector": [1, 2, 3], "tags": ["a"]}, {"ids": [1], "vector": [4, 5, 6], "tags": []}
    )
    assert contents.parts == [Part(name="vector", n=2, d=3, dtype="float64")]


def test_numbers_without_lists_are_columns(tmp_path):
    contents = opened(tmp_path, {"x": 1, "y": 2.5, "label": 0}, {"y": None, "x": 3, "label": 1})
    assert (contents.parts, contents.numeric_columns) == ([], ["x", "y"])
    np.testing.assert_array_equal(matrix(contents, ["y", "x"]), [[2.5, 1], [np.nan, 3]])
    assert contents.shape(["y", "x"]) == (2, 2)
    np.testing.assert_array_equal(
        np.concatenate(list(contents.blocks(["y", "x"], 1, transpose=True))), [[2.5, np.nan], [1, 3]]
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([{"v": [1, 2]}, {"v": [3]}], r"Line 2 holds 1 value under 'v', where .* a list of 2 numbers: give every line"),
        ([{"v": [1, 2]}, {"v": "text"}], "Line 2 holds text under 'v'"),
        ([{"v": [1, 2]}, {"v": [[1], [2]]}], "Line 2 holds 2 values that are not all numbers under 'v'"),
        ([{"v": [1]}, {"v": ["a", None]}], "Line 2 holds 2 values under 'v', where .* a list of 1 number: give"),
        ([{"v": [1, 2]}, {}], "1 of 2 lines hold nothing under 'v': give every line a list of numbers"),
        ([{"v": [1, 2]}, {"v": None}], "1 of 2 lines hold nothing under 'v'"),
        ([{"v": [[1, 2]]}], "No key of the objects holds a list of numbers or a number"),
        ([{"v": []}], "No key of the objects holds a list of numbers or a number"),
        ([{"v": "a"}], "No key of the objects holds a list of numbers or a number"),
        ([""], "No key of the objects holds a list of numbers or a number"),
        (['{"v": [1], "v": [2]}'], r"Line 1 is not JSON \(the key 'v' occurs twice\)"),
        (['{"v": [' + "9" * 5000 + "]}"], r"Line 1 is not JSON \(Exceeds the limit"),
        (['{"v": ' + "[" * 100_000 + "}"], "Line 1 is nested too deeply"),
    ],
)
def test_lines_without_matrix_are_refused(tmp_path, lines, sentence):
    with pytest.raises(InvalidError, match=sentence):
        opened(tmp_path, *lines)


def test_integer_beyond_64_bits_is_refused(tmp_path):
    contents = opened(tmp_path, {"v": [1, 10**400]})
    with pytest.raises(InvalidError, match="Line 1 holds a number under 'v' that is too large for 64 bits"):
        matrix(contents, "v")
