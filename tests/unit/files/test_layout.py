import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.delimited import find_layout


def layout(*lines):
    return find_layout([(number, line.split(",")) for number, line in enumerate(lines, start=1)])


def test_numbers_are_vectors_and_text_is_names():
    table = layout("word,x,y", "king,1.5,2", "queen,3,-1e-3")
    assert table.has_header
    assert table.columns == ["word", "x", "y"]
    assert table.numeric == ["x", "y"]
    assert table.annotations == ["word"]


def test_without_a_header_columns_are_counted():
    table = layout("king,0.5,2", "queen,3,1")
    assert not table.has_header
    assert table.columns == ["column 1", "column 2", "column 3"]
    assert table.numeric == ["column 2", "column 3"]


def test_the_numbers_that_pandas_writes_as_a_header_are_no_row():
    table = layout(",0,1,2", "0,0.5,1.5,2.5", "1,3.5,4.5,5.5")
    assert table.has_header
    assert table.columns == ["column 1", "0", "1", "2"]
    assert table.numeric == ["0", "1", "2"]
    assert table.annotations == ["column 1"]


def test_counting_numbers_above_whole_numbers_are_a_row():
    assert not layout("0,1,2", "3,4,5").has_header


@pytest.mark.parametrize("name", ["label", "Class", "id", "idx", "target"])
def test_whole_numbers_under_the_name_of_a_label_are_not_coordinates(name):
    table = layout(f"x,y,{name}", "0.5,1.5,0", "2.5,3.5,1")
    assert table.numeric == ["x", "y"]
    assert table.annotations == [name]


def test_whole_numbers_under_another_name_can_be_both():
    table = layout("x,stars", "0.5,5", "1.5,3")
    assert table.numeric == ["x", "stars"]
    assert table.annotations == ["stars"]


def test_a_column_that_is_mostly_numbers_is_numbers_so_that_the_mistake_is_found():
    assert layout("x,y", "1,2", "abc,3", "4,5").numeric == ["x", "y"]


def test_nan_and_empty_cells_do_not_make_a_column_text():
    assert layout("x,y", "nan,", "inf,2", ",3").numeric == ["x", "y"]


def test_names_of_columns_lose_the_space_around_them():
    assert layout(" word , x ", "a,1").columns == ["word", "x"]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "The file holds blank lines only"),
        (["x,y"], "The file has a header but no rows, so there is nothing to measure"),
        (["x,x", "1,2"], "Line 1 names 2 columns 'x': give every column a unique name"),
        (["a,b", "c,d", "e,f"], "No column holds numbers, so there are no vectors: .* begins with 'c'"),
        (["a;b", "1;2"], "The cells seem to be separated by ';'"),
        (["a\tb", "1\t2"], r"The cells seem to be separated by '\\t': name the file \.tsv"),
    ],
)
def test_a_table_without_vectors_is_refused(lines, sentence):
    with pytest.raises(InvalidError, match=sentence):
        layout(*lines)
