import csv
import io

import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files import contents as contents_module
from isoscope.files import delimited
from isoscope.files.contents import Annotation
from isoscope.files.delimited import find_layout, open_csv, open_tsv, open_tsv_table
from isoscope.files.text import Quotes, Quoting, detect_quotes, records, settle_quoting


def opened(tmp_path, content, file_format=open_csv):
    path = tmp_path / "table"
    path.write_text(content, newline="")
    return file_format(path)


def matrix(contents, columns=None, rows=100, transpose=False):
    return np.concatenate(list(contents.blocks(columns or contents.numeric_columns, rows, transpose=transpose)))


def test_columns_are_classified_and_read_in_selected_order(tmp_path):
    contents = opened(tmp_path, 'word,x,y\n"king, the",1,2\nqueen,3,4\nqueen,5,6\n')
    assert contents.numeric_columns == ["x", "y"]
    assert contents.parts == []
    assert contents.shape(["x", "y"]) == (3, 2)
    assert contents.dtype(["x", "y"]) == "float64"
    assert contents.annotations[0] == Annotation(name="word", n=3, n_distinct=2, examples=["king, the", "queen"])
    assert list(contents.values("word")) == ["king, the", "queen", "queen"]
    contents = opened(tmp_path, "a,b,c\n1,2,3\n4,5,6\n")
    assert matrix(contents, ["c", "a"]).tolist() == [[3, 1], [6, 4]]
    assert matrix(contents, ["b"]).tolist() == [[2], [5]]
    assert matrix(contents, ["c", "a"], transpose=True).tolist() == [[3, 6], [1, 4]]
    contents = opened(tmp_path, "name,x\n\"=cmd|' /C calc'!A0\",1\n=1+1,2\n")
    assert list(contents.values("name")) == ["=cmd|' /C calc'!A0", "=1+1"]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_numbers_are_read_in_blocks_in_both_orientations(tmp_path, transpose, rows):
    contents = opened(tmp_path, "\n".join(f"{i}.5,{i + 1},{i + 2}e0" for i in range(5)))
    x = np.array([[i + 0.5, i + 1, i + 2] for i in range(5)])
    np.testing.assert_array_equal(matrix(contents, rows=rows, transpose=transpose), x.T if transpose else x)


def test_empty_cells_are_nan_and_column_blocks_fit_memory(tmp_path, monkeypatch):
    contents = opened(tmp_path, "x,y\n1,2\n,NA\nnull,None\nNaN,-inf\n5,6\n7,8\n9,10\n")
    assert np.isnan(matrix(contents)).tolist()[1:4] == [[True, True], [True, True], [True, False]]
    monkeypatch.setattr(contents_module, "MAX_COLUMN_BLOCK_BYTES", 8 * 2)
    contents = opened(tmp_path, "1,2,3\n4,5,6\n")
    assert [block.tolist() for block in contents.blocks(contents.numeric_columns, 9, transpose=True)] == [
        [[1, 4]], [[2, 5]], [[3, 6]]
    ]  # fmt: skip


def test_invalid_cell_is_named_by_line_and_column(tmp_path, monkeypatch):
    contents = opened(tmp_path, "x,y\n1,2\n3,4\n5,abc\n")
    with pytest.raises(
        InvalidError, match=r"Line 4, column 2 \('y'\) holds 'abc' where a number belongs: write a number"
    ):
        matrix(contents)
    with pytest.raises(InvalidError, match=r"Line 3 has another number of columns \(3\) than line 1 \(2\)"):
        opened(tmp_path, "x,y\n1,2\n3,4,5\n")
    monkeypatch.setattr(delimited, "SAMPLE_LINES", 3)
    contents = opened(tmp_path, "x\ty\n" + "1\t2\n" * 5 + "1,5\t2\n", open_tsv)
    with pytest.raises(InvalidError, match=r"Line 7, column 1 \('x'\) holds '1,5' where a number belongs"):
        matrix(contents)


@pytest.mark.parametrize(
    "cells", [("[0.5, -1.25, 3]", "[1e3, nan, 2]"), ("[ 0.5  -1.25\n 3.  ]", "[1.e+03    nan 2.e+00]")]
)
def test_cells_with_lists_are_vectors(tmp_path, cells):
    contents = opened(tmp_path, 'id,text,embedding\n7,king,"{}"\n8,queen,"{}"\n'.format(*cells))
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
def test_list_of_wrong_shape_is_refused_by_line(tmp_path, cell, words):
    with pytest.raises(InvalidError, match=r"Line 3") as caught:
        opened(
            tmp_path,
            f'embedding\n"[1, 2]"\n"{cell}"\n"[3, 4]"\n"[5, 6]"\n' if cell else 'e,f\n"[1, 2]",a\n,b\n"[3, 4]",c\n',
        )
    assert words in caught.value.message


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


def write(tmp_path, content):
    path = tmp_path / "table.tsv"
    path.write_text(content, newline="")
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a\tb\n1\t2\n", None),
        ('a\tb\n"When was the ""X"" period?"\t1\n', Quoting.QUOTED),
        ('a\tb\n"two\twords"\t1\n', Quoting.QUOTED),
        ('a\tb\n"two\nlines"\t1\n', Quoting.QUOTED),
        ('a\tb\n"Yes."\t1\n', Quoting.TEXT),
        ('a\tb\n"When was the ""X"" period?"\t1\nsay "hi"\t1\n', Quoting.TEXT),
        ('a\tb\n"Yes," she said, "no"\t1\n', Quoting.TEXT),
        ('a\tb\n"never closed ""x""\t1\n', Quoting.TEXT),
        ('a\tb\n6" pipe\t1\n8" pipe\t2\n', Quoting.TEXT),
    ],
)
def test_quotes_enclose_cells_only_if_consistent_and_needed(tmp_path, content, expected):
    assert detect_quotes(write(tmp_path, content)).reading is expected


def test_paired_quotes_follow_sibling_file():
    quotes = {"train": Quotes.QUOTED, "validation": Quotes.PAIRS, "test": Quotes.NONE}
    assert settle_quoting(quotes) == {"train": Quoting.QUOTED, "validation": Quoting.QUOTED}
    quotes = {"train": Quotes.TEXT, "validation": Quotes.QUOTED}
    assert settle_quoting(quotes) == {"train": Quoting.TEXT, "validation": Quoting.QUOTED}
    assert settle_quoting({"train": Quotes.PAIRS}) == {"train": Quoting.TEXT}
    assert settle_quoting(quotes, Quoting.TEXT) == {"train": Quoting.TEXT, "validation": Quoting.TEXT}


def test_csv_writer_output_reads_back(tmp_path):
    rows = [["text", "label"], ['When was the "X" period?', "1"], ["a\tb", "0"], ["two\nlines", "1"]]
    rows += [['"', "0"], ["é", ""]]
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(rows)
    table = open_tsv_table(write(tmp_path, stream.getvalue()))
    assert table.quoting is Quoting.QUOTED
    assert [[cell or "" for cell in row] for row in table.rows()] == rows[1:]


def test_chosen_quoting_is_used_and_lines_are_numbered(tmp_path):
    path = write(tmp_path, 'text\n"a ""b"""\n')
    assert [row for _, row in records(path, "\t", Quoting.TEXT)] == [["text"], ['"a ""b"""']]
    assert open_tsv_table(path, Quoting.TEXT).quoting is Quoting.TEXT
    assert list(open_tsv_table(path, Quoting.QUOTED).rows()) == [['a "b"']]
    path = write(tmp_path, 'a\n"two\nlines"\n\nlast\n')
    assert list(records(path, "\t", Quoting.QUOTED)) == [(1, ["a"]), (2, ["two\nlines"]), (5, ["last"])]
    with pytest.raises(InvalidError, match="Line 2 holds a quote") as caught:
        list(records(write(tmp_path, 'a\n6" pipe and 8" pipe\n'), "\t", Quoting.QUOTED))
    assert caught.value.field == "quoting"


def test_reference_files_read_cell_for_cell(bench_data):
    files = sorted(bench_data.glob("*/*.tsv"))
    assert files
    for path in files:
        assert detect_quotes(path).reading in {None, Quoting.TEXT}, path.name
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        table = open_tsv_table(path)
        for row, line in zip(table.rows(), lines[1:], strict=True):
            assert [cell or "" for cell in row] == [cell if cell.strip() else "" for cell in line.split("\t")]
