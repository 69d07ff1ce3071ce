import gzip
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.db.hub_tasks import TASKS, HubName
from app.training.columns import check_columns, guess_task
from isoscope.core.errors import InvalidError, UnsupportedFormatError
from isoscope.core.task import TaskKind
from isoscope.files.columns import ColumnKind, DatasetDescription, describe_dataset, describe_texts, read_columns

CLASSIFIED = TaskKind.CLASSIFICATION, ["sentence"], "label"
TSV = 'sentence \tlabel\tidx\na "quoted\t1\t0\nb, c\t0\t1\nd\t1\t2\ne\t0\t3\n'

PAIR = "sentence1 + sentence2"


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        if isinstance(content, dict):
            pq.write_table(pa.table(content), path)
        else:
            path.write_text(content, newline="")
        return path, name

    return to


@pytest.fixture
def described(write):
    def describe(train, validation, train_name="train.tsv", validation_name="validation.tsv"):
        return describe_dataset(*write(train_name, train), *write(validation_name, validation))

    return describe


def test_pair_is_described_by_shared_columns(described):
    description = described(TSV, "label\tsentence\n1\tx\n")
    assert (description.n_train, description.n_validation) == (4, 1)
    assert [(column.name, column.kind) for column in description.columns] == [
        ("sentence", ColumnKind.TEXT),
        ("label", ColumnKind.LABEL),
    ]
    sentence, label = description.columns
    assert sentence.examples == ['a "quoted', "b, c", "d"]
    assert label.values == ["0", "1"]
    assert DatasetDescription.model_validate_json(description.model_dump_json()) == description
    description = described("sentence,label\na,1\n ,0\n", "sentence,label\nb,\n,1\n,0\n", "a.csv", "b.csv")
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
def test_labels_are_equal_in_every_format(described, name, content):
    description = described(TSV, content, validation_name=name)
    assert check_columns(description.columns, *CLASSIFIED) == ["0", "1"]


def test_unseen_and_too_many_labels_are_refused(described):
    description = described(TSV, "sentence\tlabel\nx\t2\ny\t1\n")
    with pytest.raises(InvalidError, match="of the validation file holds '2', which the train file never does"):
        check_columns(description.columns, *CLASSIFIED)
    rows = "sentence\tlabel\n" + "".join(f"s{i}\tl{i}\n" for i in range(5000))
    description = described(rows, rows)
    with pytest.raises(InvalidError, match="has more than 1,000 different values, labels at most 200"):
        check_columns(description.columns, *CLASSIFIED)


@pytest.mark.parametrize(
    ("train", "validation", "field", "sentence"),
    [
        ("a\tb\n", TSV, "train", r"train\.tsv: the file names columns but has no rows"),
        (TSV, "sentence\tlabel\n", "validation", r"validation\.tsv: the file names columns but has no rows"),
        (TSV, "", "validation", r"validation\.tsv: The file is empty: 0 bytes"),
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
def test_unusable_file_is_named(described, train, validation, field, sentence):
    with pytest.raises(InvalidError, match=sentence) as raised:
        described(train, validation)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("x.json", r"x\.json: Expected \.parquet, .* got a \.json file"),
        ("x.pkl", "Python pickle"),
        ("x.pt", "pickled PyTorch"),
    ],
)
def test_other_formats_are_refused(described, name, sentence):
    with pytest.raises(UnsupportedFormatError, match=sentence):
        described("text", TSV, train_name=name)


def test_columns_are_read_in_requested_order(write):
    assert read_columns(*write("t.tsv", TSV), ["label", "sentence"]) == {
        "label": ["1", "0", "1", "0"],
        "sentence": ['a "quoted', "b, c", "d", "e"],
    }
    assert read_columns(*write("t.parquet", {"n": [1, None], "s": ["a", "b"]}), ["n"]) == {"n": [1, None]}
    assert read_columns(*write("t.jsonl", '{"n": 1}\n{"n": 0.5}\n'), ["n"]) == {"n": [1, 0.5]}
    with pytest.raises(InvalidError, match=r"t\.tsv has no column 'text': it has 'sentence', 'label', 'idx'"):
        read_columns(*write("t.tsv", TSV), ["label", "text"])


@pytest.mark.slow
@pytest.mark.skipif("ISOSCOPE_BENCH_DATA" not in os.environ, reason="ISOSCOPE_BENCH_DATA is not set")
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
def test_reference_tasks_are_detected_from_files(name, train, validation, summary, classes):
    folder = Path(os.environ["ISOSCOPE_BENCH_DATA"]) / name
    description = describe_dataset(folder / train, train, folder / validation, validation)
    proposal = guess_task(description.columns)
    assert proposal.summary == summary
    labels = check_columns(description.columns, proposal.task, proposal.text_columns, proposal.label_column)
    assert labels == [str(number) for number in range(classes)]

    published = TASKS[HubName(name)]
    n_train = 7764 if name == "squad" else published.n_train  # the reference data hold a part of SQuAD's train file
    assert (description.n_train, description.n_validation) == (n_train, published.n_validation)
    assert (proposal.task, proposal.n_classes or 0) == (published.task, len(published.labels))


@pytest.mark.skipif("ISOSCOPE_BENCH_DATA" not in os.environ, reason="ISOSCOPE_BENCH_DATA is not set")
def test_sst2_labels_are_integers():
    path = Path(os.environ["ISOSCOPE_BENCH_DATA"]) / "sst2" / "train.parquet"
    labels = read_columns(path, path.name, ["label"])["label"]
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
def test_gzipped_text_is_read(described, tmp_path, write, name, content):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()))
    description = describe_dataset(*write("train.tsv", TSV), path, name)
    assert check_columns(description.columns, *CLASSIFIED) == ["0", "1"]
    assert read_columns(path, name, ["label"])["label"][0] in {1, "1"}


SPAN = '{"text": ["b"], "answer_start": [2]}'


def test_column_is_span_if_both_files_hold_only_answers(described):
    jsonl = f'{{"question": "q", "context": "a b", "answers": {SPAN}}}\n'
    tsv = "question\tcontext\tanswers\nq\ta b\t"
    description = described(jsonl, f"{tsv}{SPAN}\n", "t.jsonl")
    assert [column.kind for column in description.columns] == [ColumnKind.TEXT, ColumnKind.TEXT, ColumnKind.SPAN]
    assert description.columns[2].examples == ["b"]
    for train, validation in ((f"{tsv}{SPAN}\n", f"{tsv}b\n"), (f"{tsv}b\n", f"{tsv}{SPAN}\n")):
        assert described(train, validation).columns[2].kind is ColumnKind.TEXT


def test_nonnumber_in_either_file_is_recorded(described):
    numbers, words = "score\n1.5\n2\n", "score\n1.5\nhigh\n"
    for train, validation, expected in ((numbers, numbers, None), (numbers, words, "high"), (words, numbers, "high")):
        assert described(train, validation).columns[0].not_number == expected


def test_text_file_is_described(write):
    description = describe_texts(*write("rows.csv", "text,gold\none,1\ntwo,\nthree,0\n,1\n"))
    assert description.n == 4
    text, gold = description.columns
    assert (text.name, text.kind, text.n_missing_train) == ("text", ColumnKind.TEXT, 1)
    assert (gold.values, gold.unseen, gold.n_missing_train, gold.n_missing_validation) == (["0", "1"], [], 1, 0)
    description = describe_texts(*write("texts.txt", "one, two\n\nthree\n"))
    assert description.n == 3
    (line,) = description.columns
    assert (line.name, line.n_distinct, line.n_missing_train, line.examples) == ("line", 2, 1, ["one, two", "three"])
    with pytest.raises(InvalidError, match=r"rows\.csv: the file names columns but has no rows") as refused:
        describe_texts(*write("rows.csv", "text\n"))
    assert refused.value.field == "file"
