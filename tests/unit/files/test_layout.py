import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.delimited import find_layout


def layout(*lines):
    return find_layout([(number, line.split(",")) for number, line in enumerate(lines, start=1)])


@pytest.mark.parametrize(
    ("lines", "header", "columns", "numeric", "annotations"),
    [
        (("word,x,y", "king,1.5,2", "queen,3,-1e-3"), True, ["word", "x", "y"], ["x", "y"], ["word"]),
        (("king,0.5,2", "queen,3,1"), False, ["column 1", "column 2", "column 3"], ["column 2", "column 3"],
         ["column 1", "column 3"]),
        ((",0,1,2", "0,0.5,1.5,2.5", "1,3.5,4.5,5.5"), True, ["column 1", "0", "1", "2"], ["0", "1", "2"],
         ["column 1"]),
        (("x,stars", "0.5,5", "1.5,3"), True, ["x", "stars"], ["x", "stars"], ["stars"]),
    ],
    ids=["text is names", "no header", "pandas header", "integers are both"],
)  # fmt: skip
def test_numbers_are_vectors_and_text_or_integers_are_names(lines, header, columns, numeric, annotations):
    table = layout(*lines)
    assert (table.has_header, table.columns) == (header, columns)
    assert (table.numeric, table.annotations) == (numeric, annotations)


def test_column_with_errors_or_gaps_stays_numeric():
    assert not layout("0,1,2", "3,4,5").has_header
    assert layout("x,y", "1,2", "abc,3", "4,5").numeric == ["x", "y"]
    assert layout("x,y", "nan,", "inf,2", ",3").numeric == ["x", "y"]
    assert layout(" word , x ", "a,1").columns == ["word", "x"]


@pytest.mark.parametrize("name", ["label", "Class", "id", "idx", "target"])
def test_integers_named_as_labels_are_not_coordinates(name):
    table = layout(f"x,y,{name}", "0.5,1.5,0", "2.5,3.5,1")
    assert table.numeric == ["x", "y"]
    assert table.annotations == [name]


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
def test_table_without_vectors_is_refused(lines, sentence):
    with pytest.raises(InvalidError, match=sentence):
        layout(*lines)
