import csv
import io
import os
from pathlib import Path

import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.delimited import open_tsv_table
from isoscope.files.text import Quotes, Quoting, detect_quotes, records, settle_quoting

DATA = os.environ.get("ISOSCOPE_BENCH_DATA")


@pytest.fixture
def write(tmp_path):
    def write_content(content):
        path = tmp_path / "table.tsv"
        path.write_text(content, newline="")
        return path

    return write_content


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
def test_quotes_enclose_cells_only_if_consistent_and_needed(write, content, expected):
    assert detect_quotes(write(content)).reading is expected


def test_paired_quotes_follow_sibling_file():
    quotes = {"train": Quotes.QUOTED, "validation": Quotes.PAIRS, "test": Quotes.NONE}
    assert settle_quoting(quotes) == {"train": Quoting.QUOTED, "validation": Quoting.QUOTED}
    quotes = {"train": Quotes.TEXT, "validation": Quotes.QUOTED}
    assert settle_quoting(quotes) == {"train": Quoting.TEXT, "validation": Quoting.QUOTED}
    assert settle_quoting({"train": Quotes.PAIRS}) == {"train": Quoting.TEXT}
    assert settle_quoting(quotes, Quoting.TEXT) == {"train": Quoting.TEXT, "validation": Quoting.TEXT}


def test_csv_writer_output_reads_back(write):
    rows = [["text", "label"], ['When was the "X" period?', "1"], ["a\tb", "0"], ["two\nlines", "1"]]
    rows += [['"', "0"], ["é", ""]]
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(rows)
    table = open_tsv_table(write(stream.getvalue()))
    assert table.quoting is Quoting.QUOTED
    assert [[cell or "" for cell in row] for row in table.rows()] == rows[1:]


def test_chosen_quoting_is_used_and_lines_are_numbered(write):
    path = write('text\n"a ""b"""\n')
    assert [row for _, row in records(path, "\t", Quoting.TEXT)] == [["text"], ['"a ""b"""']]
    assert open_tsv_table(path, Quoting.TEXT).quoting is Quoting.TEXT
    assert list(open_tsv_table(path, Quoting.QUOTED).rows()) == [['a "b"']]
    path = write('a\n"two\nlines"\n\nlast\n')
    assert list(records(path, "\t", Quoting.QUOTED)) == [(1, ["a"]), (2, ["two\nlines"]), (5, ["last"])]
    with pytest.raises(InvalidError, match="Line 2 holds a quote") as caught:
        list(records(write('a\n6" pipe and 8" pipe\n'), "\t", Quoting.QUOTED))
    assert caught.value.field == "quoting"


@pytest.mark.skipif(DATA is None, reason="ISOSCOPE_BENCH_DATA is unset: no reference data")
def test_reference_files_read_cell_for_cell():
    files = sorted(Path(str(DATA)).glob("*/*.tsv"))
    assert files
    for path in files:
        assert detect_quotes(path).reading in {None, Quoting.TEXT}, path.name
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        table = open_tsv_table(path)
        for row, line in zip(table.rows(), lines[1:], strict=True):
            assert [cell or "" for cell in row] == [cell if cell.strip() else "" for cell in line.split("\t")]
