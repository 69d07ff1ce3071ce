import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files import contents as contents_module
from isoscope.files import delimited
from isoscope.files.contents import Annotation
from isoscope.files.delimited import open_csv, open_tsv


@pytest.fixture
def opened(tmp_path):
    def open_content(content, file_format=open_csv):
        path = tmp_path / "table"
        path.write_text(content, newline="")
        return file_format(path)

    return open_content


def matrix(contents, columns=None, rows=100, transpose=False):
    return np.concatenate(list(contents.blocks(columns or contents.numeric_columns, rows, transpose=transpose)))


def test_columns_are_classified_and_read_in_selected_order(opened):
    contents = opened('word,x,y\n"king, the",1,2\nqueen,3,4\nqueen,5,6\n')
    assert contents.numeric_columns == ["x", "y"]
    assert contents.parts == []
    assert contents.shape(["x", "y"]) == (3, 2)
    assert contents.dtype(["x", "y"]) == "float64"
    assert contents.annotations[0] == Annotation(name="word", n=3, n_distinct=2, examples=["king, the", "queen"])
    assert list(contents.values("word")) == ["king, the", "queen", "queen"]
    contents = opened("a,b,c\n1,2,3\n4,5,6\n")
    assert matrix(contents, ["c", "a"]).tolist() == [[3, 1], [6, 4]]
    assert matrix(contents, ["b"]).tolist() == [[2], [5]]
    assert matrix(contents, ["c", "a"], transpose=True).tolist() == [[3, 6], [1, 4]]
    contents = opened("name,x\n\"=cmd|' /C calc'!A0\",1\n=1+1,2\n")
    assert list(contents.values("name")) == ["=cmd|' /C calc'!A0", "=1+1"]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_numbers_are_read_in_blocks_in_both_orientations(opened, transpose, rows):
    contents = opened("\n".join(f"{i}.5,{i + 1},{i + 2}e0" for i in range(5)))
    x = np.array([[i + 0.5, i + 1, i + 2] for i in range(5)])
    np.testing.assert_array_equal(matrix(contents, rows=rows, transpose=transpose), x.T if transpose else x)


def test_empty_cells_are_nan_and_column_blocks_fit_memory(opened, monkeypatch):
    contents = opened("x,y\n1,2\n,NA\nnull,None\nNaN,-inf\n5,6\n7,8\n9,10\n")
    assert np.isnan(matrix(contents)).tolist()[1:4] == [[True, True], [True, True], [True, False]]
    monkeypatch.setattr(contents_module, "MAX_COLUMN_BLOCK_BYTES", 8 * 2)
    contents = opened("1,2,3\n4,5,6\n")
    assert [block.tolist() for block in contents.blocks(contents.numeric_columns, 9, transpose=True)] == [
        [[1, 4]], [[2, 5]], [[3, 6]]
    ]  # fmt: skip


def test_invalid_cell_is_named_by_line_and_column(opened, monkeypatch):
    contents = opened("x,y\n1,2\n3,4\n5,abc\n")
    with pytest.raises(
        InvalidError, match=r"Line 4, column 2 \('y'\) holds 'abc' where a number belongs: write a number"
    ):
        matrix(contents)
    with pytest.raises(InvalidError, match=r"Line 3 has another number of columns \(3\) than line 1 \(2\)"):
        opened("x,y\n1,2\n3,4,5\n")
    monkeypatch.setattr(delimited, "SAMPLE_LINES", 3)
    contents = opened("x\ty\n" + "1\t2\n" * 5 + "1,5\t2\n", open_tsv)
    with pytest.raises(InvalidError, match=r"Line 7, column 1 \('x'\) holds '1,5' where a number belongs"):
        matrix(contents)


@pytest.mark.parametrize(
    "cells", [("[0.5, -1.25, 3]", "[1e3, nan, 2]"), ("[ 0.5  -1.25\n 3.  ]", "[1.e+03    nan 2.e+00]")]
)
def test_cells_with_lists_are_vectors(opened, cells):
    contents = opened('id,text,embedding\n7,king,"{}"\n8,queen,"{}"\n'.format(*cells))
    assert [(part.name, part.n, part.d) for part in contents.parts] == [("embedding", 2, 3)]
    assert contents.numeric_columns == []
    assert [annotation.name for annotation in contents.annotations] == ["text", "id"]
    np.testing.assert_array_equal(matrix(contents, "embedding"), [[0.5, -1.25, 3], [1000, np.nan, 2]])
    assert matrix(contents, "embedding", transpose=True).shape == (3, 2)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("[1, 2, 3]", "Line 3 holds a list of 3 numbers"),
        ("[1 ... 2]", "shortened list"),
        ("[1, x]", "'x' in a list"),
        ("", "give every line a list"),
        ("1", "give every line a list"),
    ],
)
def test_list_of_wrong_shape_is_refused_by_line(opened, cell, words):
    with pytest.raises(InvalidError, match=r"Line 3") as caught:
        opened(f'embedding\n"[1, 2]"\n"{cell}"\n"[3, 4]"\n"[5, 6]"\n' if cell else 'e,f\n"[1, 2]",a\n,b\n"[3, 4]",c\n')
    assert words in caught.value.message
