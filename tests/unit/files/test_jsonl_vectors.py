import json

import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.contents import Part
from isoscope.files.jsonl import open_vectors


@pytest.fixture
def opened(tmp_path):
    def open_lines(*lines):
        path = tmp_path / "x.jsonl"
        path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
        return open_vectors(path)

    return open_lines


def matrix(contents, vectors):
    return np.concatenate(list(contents.rows(vectors, 2)))


def test_lists_are_vectors_and_scalars_are_names_and_labels(opened):
    contents = opened(
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
        {"ids": [1, 2], "vector": [1, 2, 3], "tags": ["a"]}, {"ids": [1], "vector": [4, 5, 6], "tags": []}
    )
    assert contents.parts == [Part(name="vector", n=2, d=3, dtype="float64")]


def test_numbers_without_lists_are_columns(opened):
    contents = opened({"x": 1, "y": 2.5, "label": 0}, {"y": None, "x": 3, "label": 1})
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
def test_lines_without_matrix_are_refused(opened, lines, sentence):
    with pytest.raises(InvalidError, match=sentence):
        opened(*lines)


def test_integer_beyond_64_bits_is_refused(opened):
    contents = opened({"v": [1, 10**400]})
    with pytest.raises(InvalidError, match="Line 1 holds a number under 'v' that is too large for 64 bits"):
        matrix(contents, "v")
