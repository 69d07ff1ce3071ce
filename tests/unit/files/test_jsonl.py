import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.jsonl import open_table


@pytest.fixture
def read(tmp_path):
    def read_content(content):
        path = tmp_path / "rows.jsonl"
        path.write_text(content, newline="")
        table = open_table(path)
        return table.columns, [list(row) for row in table.rows()]

    return read_content


def test_objects_are_rows_and_answers_stay_json(read):
    assert read('{"text": "a", "label": 1}\n\n{"label": 0.5, "text": "b", "flag": true}\n') == (
        ["text", "label", "flag"],
        [["a", 1, None], ["b", 0.5, True]],
    )
    assert read('{"a": 1, "b": 2}\n{"a": 3, "b": [4]}\n{"a": 5, "c": {}}\n') == (["a"], [[1], [3], [5]])
    assert read('{"a": ""}\n{"a": null}\n{"a": NaN}\n{"a": " "}\n{"a": "x"}\n')[1] == [*[[None]] * 4, ["x"]]
    assert read('{"a": "x\\ud800y\\u0000z"}\n')[1] == [["x?y\ufffdz"]]
    text = '{"text": ["b"], "answer_start": [2]}'
    none = '{"text": [], "answer_start": []}'
    lines = [f'{{"q": "a", "answers": {value}}}\n' for value in (ANSWERS, "null", none, text)]
    assert read("".join(lines)) == (["q", "answers"], [["a", text], ["a", None], ["a", None], ["a", text]])
    broken = ANSWERS.replace("[2]", "[2, 3]")
    with pytest.raises(InvalidError, match="Line 3 holds no answers under 'a': expected a list of texts and a list of"):
        read(f'{{"a": {ANSWERS}}}\n\n{{"a": {broken}}}\n')


ANSWERS = '{"text": ["b"], "answer_start": [2], "exact": [true]}'


@pytest.mark.parametrize("value", ['"b"', "3", "[1]", "{}", '{"text": ["b"]}', "[" + ANSWERS + "]"])
def test_mixed_answers_are_no_column(read, value):
    assert read(f'{{"q": 1, "a": {ANSWERS}}}\n{{"q": 2, "a": {value}}}\n') == (["q"], [[1], [2]])
    assert read(f'{{"q": 1, "a": {value}}}\n{{"q": 2, "a": {ANSWERS}}}\n') == (["q"], [[1], [2]])


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
def test_invalid_lines_are_refused(read, content, sentence):
    with pytest.raises(InvalidError, match=sentence):
        read(content)
