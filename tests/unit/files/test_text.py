import pytest

from isoscope.core.errors import InvalidError
from isoscope.files import text
from isoscope.files.text import Quoting, records


@pytest.fixture
def read(tmp_path):
    def read_content(content, separator=",", quoting=Quoting.TEXT):
        path = tmp_path / "table"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(records(path, separator, quoting))

    return read_content


def test_csv_quotes_enclose_cells_and_tsv_quotes_are_text(read):
    assert read('a,b\n"x, y","say ""hi"""\n"two\nlines",é\nlast,row') == [
        (1, ["a", "b"]),
        (2, ["x, y", 'say "hi"']),
        (4, ["two\nlines", "é"]),
        (5, ["last", "row"]),
    ]
    assert read('a\tb\n"x\ty" z\rw\n', "\t") == [(1, ["a", "b"]), (2, ['"x', 'y" z\rw'])]
    assert read("\ufeffa,b\n") == [(1, ["a", "b"])]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_all_systems_are_read(read, end):
    for separator in (",", "\t"):
        assert read(f"a{separator}b{end}1{separator}{end}", separator) == [(1, ["a", "b"]), (2, ["1", ""])]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_blank_lines_are_skipped_but_counted(read, separator):
    assert read("\na\n\n\nb\n\n", separator) == [(2, ["a"]), (5, ["b"])]


@pytest.mark.parametrize(("content", "error"), [("a,b\n1,2\n3\n", 1), ("a,b\n1,2\n3,4,5\n", 3), ('a,b\n1,2\n"3"\n', 1)])
def test_ragged_lines_are_named(read, content, error):
    sentence = rf"Line 3 has another number of columns \({error}\) than line 1 \(2\): every line needs the same"
    with pytest.raises(InvalidError, match=sentence):
        read(content)


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("a;b\n1,5;2,5\n", r"The cells seem to be separated by ';': .* write numbers with a point \(0\.5\)"),
        ("a b\n1,5 2,5\n", "Look for a stray separator or an unclosed quote"),
    ],
)
def test_semicolons_with_decimal_commas_are_recognized(read, content, advice):
    with pytest.raises(
        InvalidError, match=rf"Line 2 has another number of columns .*: every line needs the same\. {advice}"
    ):
        read(content)


@pytest.mark.parametrize("content", ['a,b\n"1,2\n3,4\n', 'a,b\n"1"x,2\n'])
def test_broken_quotes_are_named(read, content):
    with pytest.raises(InvalidError, match=r'Line 2 is not csv \(.*\): quote cells .*\("say ""hi"""\)'):
        read(content)


def test_oversized_cells_lines_and_columns_are_refused(read, monkeypatch):
    with pytest.raises(InvalidError, match=r"Line 2 is not csv \(field larger than field limit \(131072\)\)"):
        read('a,b\n1,"' + "x" * 200_000)
    monkeypatch.setattr(text, "MAX_LINE_CHARACTERS", 1000)
    with pytest.raises(InvalidError, match="Line 1 has 1,000 characters or more"):
        read("1," * 600)
    monkeypatch.setattr(text, "MAX_COLUMNS", 3)
    with pytest.raises(InvalidError, match=r"Line 1 has 4 columns, more than 3: store the numbers as \.npy"):
        read("1,2,3,4\n")


def test_invalid_utf8_is_refused_with_byte_and_fix(read):
    with pytest.raises(InvalidError, match=r"Expected text in UTF-8, found the byte 0xe9 in line 2: .*iconv -f latin1"):
        read("word,x\ncafé,1\n".encode("latin-1"))
    with pytest.raises(InvalidError, match="Line 2 holds a NUL byte, so this is not a text file"):
        read(b"a,b\n1,\x00\n")


@pytest.mark.parametrize("before", [1, 3_000, 30_000])
def test_invalid_byte_is_found_in_its_line(read, before):
    with pytest.raises(InvalidError, match=f"found the byte 0xe9 in line {before + 1}:"):
        read("word,größe\n".encode() * before + "word,é\n".encode("latin-1") + b"a,b\n" * 5_000)
