import gzip
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.hub_tasks import TASKS, HubName
from app.training.columns import check_columns, guess_task
from isoscope.core.errors import InvalidError
from isoscope.core.task import TaskKind
from isoscope.files import columns, text
from isoscope.files.columns import ColumnKind, DatasetDescription, describe_dataset, describe_texts, read_columns
from isoscope.files.span import Span, is_nested_span, read_span, span_text
from isoscope.files.text import Quoting, records

CLASSIFIED = TaskKind.CLASSIFICATION, ["sentence"], "label"
TSV = 'sentence \tlabel\tidx\na "quoted\t1\t0\nb, c\t0\t1\nd\t1\t2\ne\t0\t3\n'
PAIR = "sentence1 + sentence2"


def write(tmp_path, name, content):
    path = tmp_path / name
    if isinstance(content, dict):
        pq.write_table(pa.table(content), path)
    else:
        path.write_text(content, newline="")
    return path, name


def described(tmp_path, train, validation, train_name="train.tsv", validation_name="validation.tsv"):
    return describe_dataset(*write(tmp_path, train_name, train), *write(tmp_path, validation_name, validation))


def test_pair_is_described_by_shared_columns(tmp_path):
    description = described(tmp_path, TSV, "label\tsentence\n1\tx\n")
    assert (description.n_train, description.n_validation) == (4, 1)
    kinds = {column.name: column.kind for column in description.columns}
    assert kinds == {"sentence": ColumnKind.TEXT, "label": ColumnKind.LABEL}
    sentence, label = description.columns
    assert sentence.examples == ['a "quoted', "b, c", "d"]
    assert label.values == ["0", "1"]
    assert DatasetDescription.model_validate_json(description.model_dump_json()) == description
    description = described(tmp_path, "sentence,label\na,1\n ,0\n", "sentence,label\nb,\n,1\n,0\n", "a.csv", "b.csv")
    sentence, label = description.columns
    assert (sentence.n_missing_train, sentence.n_missing_validation) == (1, 2)
    assert (label.n_missing_train, label.n_missing_validation) == (0, 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.csv", 'sentence,label\n"a, b",1.0\nc,0.0\n'),
        ("v.jsonl", '{"sentence": "a", "label": 1}\n{"sentence": "b", "label": 0.0}\n'),
        ("v.parquet", {"sentence": ["a", "b"], "label": [1, 0]}),
    ],
)
def test_labels_are_equal_in_every_format(tmp_path, name, content):
    description = described(tmp_path, TSV, content, validation_name=name)
    assert check_columns(description.columns, *CLASSIFIED) == ["0", "1"]


def test_unseen_and_too_many_labels_are_refused(tmp_path):
    description = described(tmp_path, TSV, "sentence\tlabel\nx\t2\ny\t1\n")
    with pytest.raises(InvalidError, match="of the validation file holds '2', which the train file never does"):
        check_columns(description.columns, *CLASSIFIED)
    rows = "sentence\tlabel\n" + "".join(f"s{i}\tl{i}\n" for i in range(5000))
    description = described(tmp_path, rows, rows)
    with pytest.raises(InvalidError, match="has more than 1,000 different values, labels at most 200"):
        check_columns(description.columns, *CLASSIFIED)


@pytest.mark.parametrize(
    ("train", "validation", "field", "sentence"),
    [
        ("a\tb\n", TSV, "train", r"train\.tsv: the file names columns but has no rows"),
        (TSV, "sentence\tlabel\n", "validation", r"validation\.tsv: the file names columns but has no rows"),
        (TSV, "\n\n", "validation", r"validation\.tsv: The file holds blank lines only"),
        (TSV, "text\tclass\nx\t1\n", "validation", "no column in common: the train file has 'sentence', 'label', "),
        (TSV, "text\tlabel\nx y\t1\n", "validation",
         r"no column of texts in common: the train file has 'sentence', 'label', 'idx', the validation"),
        ("text;label\nx;1\n", TSV, "train",
         r"names a single column, 'text;label'\. The cells seem to be separated by ';': separate them by commas"),
        ("text|label\nx|1\n", TSV, "train", r"The cells seem to be separated by '\|'"),
        ("x\t1\n", TSV, "train", r"train\.tsv: Line 1 should name the columns, but holds the number 1: put a line"),
        ("a\ta\nx\ty\n", TSV, "train", r"train\.tsv: 2 columns are called 'a'"),
        ("a\tb\nx\n", TSV, "train", r"train\.tsv: Line 2 has another number of columns \(1\) than line 1 \(2\)"),
    ],
)  # fmt: skip
def test_unusable_file_is_named(tmp_path, train, validation, field, sentence):
    with pytest.raises(InvalidError, match=sentence) as raised:
        described(tmp_path, train, validation)
    assert raised.value.field == field


def test_columns_are_read_in_requested_order(tmp_path):
    assert read_columns(*write(tmp_path, "t.tsv", TSV), ["label", "sentence"]) == {
        "label": ["1", "0", "1", "0"],
        "sentence": ['a "quoted', "b, c", "d", "e"],
    }
    assert read_columns(*write(tmp_path, "t.parquet", {"n": [1, None], "s": ["a", "b"]}), ["n"]) == {"n": [1, None]}
    assert read_columns(*write(tmp_path, "t.jsonl", '{"n": 1}\n{"n": 0.5}\n'), ["n"]) == {"n": [1, 0.5]}
    with pytest.raises(InvalidError, match=r"t\.tsv has no column 'text': it has 'sentence', 'label', 'idx'"):
        read_columns(*write(tmp_path, "t.tsv", TSV), ["label", "text"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "train", "validation", "summary", "classes"),
    [
        ("sst2", "train.parquet", "validation.tsv", "classification: sentence → label, 2 classes", 2),
        ("cola", "train.tsv", "validation.tsv", "classification: sentence → label, 2 classes", 2),
        ("mrpc", "train.tsv", "validation.tsv", f"pair classification: {PAIR} → label, 2 classes", 2),
        ("rte", "train.tsv", "validation.tsv", f"pair classification: {PAIR} → label, 2 classes", 2),
        ("stsb", "train.tsv", "validation.tsv", f"pair regression: {PAIR} → label", 0),
        ("sst5", "train.tsv", "validation.tsv", "classification: sentence → label, 5 classes", 5),
        ("squad", "train.jsonl.gz", "validation.jsonl.gz", "span: question + context → answers", 0),
    ],
)
def test_reference_tasks_are_detected_from_files(bench_data, name, train, validation, summary, classes):
    folder = bench_data / name
    description = describe_dataset(folder / train, train, folder / validation, validation)
    proposal = guess_task(description.columns)
    assert proposal.summary == summary
    labels = check_columns(description.columns, proposal.task, proposal.text_columns, proposal.label_column)
    assert labels == [str(number) for number in range(classes)]

    published = TASKS[HubName(name)]
    n_train = 7764 if name == "squad" else published.n_train  # the reference data hold a part of SQuAD's train file
    assert (description.n_train, description.n_validation) == (n_train, published.n_validation)
    assert (proposal.task, proposal.n_classes or 0) == (published.task, len(published.labels))


def test_sst2_labels_are_integers(bench_data):
    labels = read_columns(bench_data / "sst2" / "train.parquet", "train.parquet", ["label"])["label"]
    assert {type(label) for label in labels} == {int}
    assert Counter(labels) == {0: 29780, 1: 37569}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.tsv.gz", 'label\tsentence\n1\ta "quoted\n0\tb\n'),
        ("v.CSV.GZ", 'sentence,label\n"a, b",1\nc,0\n'),
        ("v.jsonl.gz", '{"sentence": "a", "label": 1}\n'),
        ("v.jsonl", '{"sentence": "a", "label": 1}\n'),
    ],
)
def test_gzipped_text_is_read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()))
    description = describe_dataset(*write(tmp_path, "train.tsv", TSV), path, name)
    assert check_columns(description.columns, *CLASSIFIED) == ["0", "1"]
    assert read_columns(path, name, ["label"])["label"][0] in {1, "1"}


SPAN = '{"text": ["b"], "answer_start": [2]}'


def test_column_is_span_if_both_files_hold_only_answers(tmp_path):
    jsonl = f'{{"question": "q", "context": "a b", "answers": {SPAN}}}\n'
    tsv = "question\tcontext\tanswers\nq\ta b\t"
    description = described(tmp_path, jsonl, f"{tsv}{SPAN}\n", "t.jsonl")
    assert [column.kind for column in description.columns] == [ColumnKind.TEXT, ColumnKind.TEXT, ColumnKind.SPAN]
    assert description.columns[2].examples == ["b"]
    for train, validation in ((f"{tsv}{SPAN}\n", f"{tsv}b\n"), (f"{tsv}b\n", f"{tsv}{SPAN}\n")):
        assert described(tmp_path, train, validation).columns[2].kind is ColumnKind.TEXT


def test_nonnumber_in_either_file_is_recorded(tmp_path):
    numbers, words = "score\n1.5\n2\n", "score\n1.5\nhigh\n"
    for train, validation, expected in ((numbers, numbers, None), (numbers, words, "high"), (words, numbers, "high")):
        assert described(tmp_path, train, validation).columns[0].not_number == expected


def test_text_file_is_described(tmp_path):
    description = describe_texts(*write(tmp_path, "rows.csv", "text,gold\none,1\ntwo,\nthree,0\n,1\n"))
    assert description.n == 4
    text, gold = description.columns
    assert (text.name, text.kind, text.n_missing_train) == ("text", ColumnKind.TEXT, 1)
    assert (gold.values, gold.unseen, gold.n_missing_train, gold.n_missing_validation) == (["0", "1"], [], 1, 0)
    description = describe_texts(*write(tmp_path, "texts.txt", "one, two\n\nthree\n"))
    assert description.n == 3
    (line,) = description.columns
    assert (line.name, line.n_distinct, line.n_missing_train, line.examples) == ("line", 2, 1, ["one, two", "three"])
    with pytest.raises(InvalidError, match=r"rows\.csv: the file names columns but has no rows") as refused:
        describe_texts(*write(tmp_path, "rows.csv", "text\n"))
    assert refused.value.field == "file"


GOOD = {"text": ["in 1976", "1976"], "answer_start": [42, 45]}


def test_answers_become_json_of_texts_and_starts():
    text = span_text({**GOOD, "answer_start_exact": [True, False]}, "answers", "Line 1")
    assert text == '{"text": ["in 1976", "1976"], "answer_start": [42, 45]}'
    assert read_span(text) == Span(["in 1976", "1976"], [42, 45])
    assert span_text({"text": [], "answer_start": []}, "answers", "Line 1") is None
    assert read_span('{"text": [], "answer_start": []}') is None
    assert span_text({"text": None, "answer_start": None}, "answers", "Row 1") is None
    with pytest.raises(InvalidError, match="Row 1 holds no answers under 'answers': expected a list of texts"):
        span_text({"text": None, "answer_start": [1]}, "answers", "Row 1")
    surrogate = {"text": ["é\ud800\0"], "answer_start": [0]}
    assert span_text(surrogate, "answers", "Row 1") == '{"text": ["é?\ufffd"], "answer_start": [0]}'


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"text": "in 1976"}, "expected a list of texts and a list of as many positions"),
        ({"answer_start": 42}, "expected a list of texts and a list of as many positions"),
        ({"answer_start": None}, "expected a list of texts and a list of as many positions"),
        ({"answer_start": [42]}, "expected a list of texts and a list of as many positions"),
        ({"text": ["in 1976", 1976]}, "expected texts that are not empty, got 1976"),
        ({"text": ["in 1976", " "]}, "expected texts that are not empty, got ' '"),
        ({"text": ["in 1976", ["x" * 99]]}, r"expected texts that are not empty, got \['x{38}"),
        ({"answer_start": [42, -1]}, "expected positions counted from 0, got -1"),
        ({"answer_start": [42, 2.5]}, r"expected positions counted from 0, got 2\.5"),
        ({"answer_start": [42, True]}, "expected positions counted from 0, got True"),
        ({"answer_start": [42, 2**31]}, "expected positions counted from 0, got 2147483648"),
        ({"text": ["x"] * 1001, "answer_start": [0] * 1001}, "expected at most 1,000 answers, got 1,001"),
    ],
)
def test_invalid_answer_is_refused_by_line_and_column(changes, sentence):
    with pytest.raises(InvalidError, match=rf"^Line 7 holds no answers under 'a': {sentence}, as in {{\"text\": "):
        span_text(GOOD | changes, "a", "Line 7")
    assert read_span(json.dumps(GOOD | changes)) is None


@pytest.mark.parametrize("value", [{}, {"text": ["x"]}, ["text", "answer_start"], "text answer_start", None, 3])
@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "{}", "a text", '{"a":' * 50_000, '{"text": ' + "9" * 5000])
def test_other_values_hold_no_answers(value, text):
    assert not is_nested_span(value)
    assert read_span(text) is None


@pytest.mark.slow
@given(answers=st.lists(st.tuples(st.text().filter(str.strip), st.integers(0, 2**31 - 1)), min_size=1))
def test_written_answers_read_back(answers):
    texts, starts = map(list, zip(*answers, strict=True))
    written = span_text({"text": texts, "answer_start": starts}, "answers", "Row 1")
    assert read_span(written) == Span([text.replace("\0", "\ufffd") for text in texts], starts)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.slow
@given(texts=VALUES, starts=VALUES)
def test_any_values_are_read_or_refused(texts, starts):
    value = {"text": texts, "answer_start": starts}
    if texts == starts and texts in ([], None):
        assert span_text(value, "answers", "Row 1") is None
    elif isinstance(texts, list) and read_span(json.dumps(value)):
        assert read_span(span_text(value, "answers", "Row 1")) is not None
    else:
        with pytest.raises(InvalidError, match=r"^Row 1 holds no answers under 'answers': expected "):
            span_text(value, "answers", "Row 1")


def read(tmp_path, content, separator=",", quoting=Quoting.TEXT):
    path = tmp_path / "table"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(records(path, separator, quoting))


def test_csv_quotes_enclose_cells_and_tsv_quotes_are_text(tmp_path):
    assert read(tmp_path, 'a,b\n"x, y","say ""hi"""\n"two\nlines",é\nlast,row') == [
        (1, ["a", "b"]),
        (2, ["x, y", 'say "hi"']),
        (4, ["two\nlines", "é"]),
        (5, ["last", "row"]),
    ]
    assert read(tmp_path, 'a\tb\n"x\ty" z\rw\n', "\t") == [(1, ["a", "b"]), (2, ['"x', 'y" z\rw'])]
    assert read(tmp_path, "\ufeffa,b\n") == [(1, ["a", "b"])]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_of_all_systems_are_read(tmp_path, end):
    for separator in (",", "\t"):
        assert read(tmp_path, f"a{separator}b{end}1{separator}{end}", separator) == [(1, ["a", "b"]), (2, ["1", ""])]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_blank_lines_are_skipped_but_counted(tmp_path, separator):
    assert read(tmp_path, "\na\n\n\nb\n\n", separator) == [(2, ["a"]), (5, ["b"])]


@pytest.mark.parametrize(("content", "error"), [("a,b\n1,2\n3\n", 1), ("a,b\n1,2\n3,4,5\n", 3), ('a,b\n1,2\n"3"\n', 1)])
def test_ragged_lines_are_named(tmp_path, content, error):
    sentence = rf"Line 3 has another number of columns \({error}\) than line 1 \(2\): every line needs the same"
    with pytest.raises(InvalidError, match=sentence):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("a;b\n1,5;2,5\n", r"The cells seem to be separated by ';': .* write numbers with a point \(0\.5\)"),
        ("a b\n1,5 2,5\n", "Look for a stray separator or an unclosed quote"),
    ],
)
def test_semicolons_with_decimal_commas_are_recognized(tmp_path, content, advice):
    with pytest.raises(
        InvalidError, match=rf"Line 2 has another number of columns .*: every line needs the same\. {advice}"
    ):
        read(tmp_path, content)


@pytest.mark.parametrize("content", ['a,b\n"1,2\n3,4\n', 'a,b\n"1"x,2\n'])
def test_broken_quotes_are_named(tmp_path, content):
    with pytest.raises(InvalidError, match=r'Line 2 is not csv \(.*\): quote cells .*\("say ""hi"""\)'):
        read(tmp_path, content)


def test_oversized_cells_lines_and_columns_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidError, match=r"Line 2 is not csv \(field larger than field limit \(131072\)\)"):
        read(tmp_path, 'a,b\n1,"' + "x" * 200_000)
    monkeypatch.setattr(text, "MAX_LINE_CHARACTERS", 1000)
    with pytest.raises(InvalidError, match="Line 1 has 1,000 characters or more"):
        read(tmp_path, "1," * 600)
    monkeypatch.setattr(text, "MAX_COLUMNS", 3)
    with pytest.raises(InvalidError, match=r"Line 1 has 4 columns, more than 3: store the numbers as \.npy"):
        read(tmp_path, "1,2,3,4\n")


def test_invalid_utf8_is_refused_with_byte_and_fix(tmp_path):
    with pytest.raises(InvalidError, match=r"Expected text in UTF-8, found the byte 0xe9 in line 2: .*iconv -f latin1"):
        read(tmp_path, "word,x\ncafé,1\n".encode("latin-1"))
    with pytest.raises(InvalidError, match="Line 2 holds a NUL byte, so this is not a text file"):
        read(tmp_path, b"a,b\n1,\x00\n")


@pytest.mark.parametrize("before", [1, 3_000, 30_000])
def test_invalid_byte_is_found_in_its_line(tmp_path, before):
    with pytest.raises(InvalidError, match=f"found the byte 0xe9 in line {before + 1}:"):
        read(tmp_path, "word,größe\n".encode() * before + "word,é\n".encode("latin-1") + b"a,b\n" * 5_000)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, "1"), (1.0, "1"), ("1", "1"), (" 1.0 ", "1"), ("1.", "1"), ("-1.00", "-1"), ("0", "0"), (0.5, "0.5"),
     ("1.5", "1.5"), ("01", "01"), ("positive ", "positive"), (True, "True"), ("1e3", "1e3"), ("1.0.0", "1.0.0")],
)  # fmt: skip
def test_label_has_same_name_in_all_formats(value, expected):
    assert columns.label_text(value) == expected


def test_labels_sort_numbers_before_texts():
    assert columns.sort_labels({"10", "9", "b", "-1", "a", "0.5"}) == ["-1", "0.5", "9", "10", "a", "b"]


def profile(*values):
    stats = columns.ColumnStats()
    for value in values:
        stats.add(value)
    return stats


TWO_ANSWERS = '{"text": ["the answer", "answer"], "answer_start": [3, 7]}'


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["0", "1", "1", "0"], ColumnKind.LABEL),
        ([0, 1, 1, 0], ColumnKind.LABEL),
        (["yes", "no", "no", "yes"], ColumnKind.LABEL),
        ([0.5, 0.5, 1.5, 1.5], ColumnKind.NUMBER),
        ([1, 2, 3, 4], ColumnKind.NUMBER),
        (["1", "2", "three", "4"], ColumnKind.TEXT),
        (["every sentence", "is different", "here"], ColumnKind.TEXT),
        ([f"{i % 300}" for i in range(3000)], ColumnKind.NUMBER),
        ([*range(3000), "n/a"], ColumnKind.TEXT),
        ([TWO_ANSWERS, TWO_ANSWERS], ColumnKind.SPAN),
        ([TWO_ANSWERS, None, TWO_ANSWERS.replace("7", "8")], ColumnKind.SPAN),
        ([TWO_ANSWERS] * 2000 + ["none", "none"], ColumnKind.LABEL),
        ([None, None], ColumnKind.LABEL),
    ],
)
def test_column_kind_follows_values(values, kind):
    assert profile(*values).kind is kind


def test_values_are_counted_and_examples_are_cut():
    stats = profile(*range(5000), None)
    assert (stats.n, stats.n_missing, stats.n_distinct, stats.values) == (5001, 1, 1001, None)
    stats = profile("10", 9.0, 9, "b", None)
    assert stats.values == ["9", "10", "b"]
    assert stats.examples == ["10", "9", "b"]
    assert profile("x" * 500).examples == ["x" * 60]
    assert profile("1", " 2.5 ", "-3e2", ".5", 4, 1e300, None).not_number is None
    assert profile(TWO_ANSWERS, TWO_ANSWERS.replace("the", "this"), None).examples == ["the answer", "this answer"]


def test_at_most_three_unseen_labels_are_listed(tmp_path):
    train, validation = tmp_path / "train.csv", tmp_path / "dev.csv"
    for path, labels in ((train, "aacc"), (validation, "abcdef")):
        path.write_text("text,label\n" + "".join(f"sentence {i},{label}\n" for i, label in enumerate(labels)))
    _, label = describe_dataset(train, train.name, validation, validation.name).columns
    assert (label.unseen, label.n_unseen) == (["b", "d", "e"], 4)


@pytest.mark.parametrize("value", ["n/a", "1e999", "-1e999", "inf", "nan", "0x1", "1,5", float("inf"), 10**400, True])
def test_late_nonnumber_is_recorded(value):
    assert profile(*range(5000)).not_number is None
    assert profile(*range(5000), value, "another").not_number == str(value)[:60]
