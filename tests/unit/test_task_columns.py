import pytest

from app.training.columns import check_columns
from isoscope.core.errors import InvalidError
from isoscope.core.task import TaskKind
from isoscope.files.columns import Column, ColumnKind

CLASSIFICATION, REGRESSION, SPAN = TaskKind


def column(name="label", values=("0", "1"), **changes):
    described = {
        "name": name, "kind": ColumnKind.LABEL, "n_distinct": len(values or ()), "examples": list(values or ())[:3],
        "values": None if values is None else list(values), "unseen": [],
        "n_missing_train": 0, "n_missing_validation": 0,
    }  # fmt: skip
    return Column(**(described | changes))


def text(name="sentence", **changes):
    return column(name, None, **({"kind": ColumnKind.TEXT, "n_distinct": 1001, "not_number": "a text"} | changes))


def score(**changes):
    return column("score", None, **({"kind": ColumnKind.NUMBER, "n_distinct": 201} | changes))


def answers(name="answers", **changes):
    return column(name, None, **({"kind": ColumnKind.SPAN, "n_distinct": 1001, "not_number": "{"} | changes))


def test_check_columns_accepts_each_task():
    assert check_columns([text(), column()], CLASSIFICATION, ["sentence"], "label") == ["0", "1"]
    for label in (score(), column("score"), column("score", ["0", "0.5", "1"], kind=ColumnKind.NUMBER)):
        assert check_columns([text(), label], REGRESSION, ["sentence"], "score") == []
    columns = [text("question"), text("context"), answers()]
    assert check_columns(columns, SPAN, ["question", "context"], "answers") == []


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ([], r"There is no column 'label' in both files: choose one of 'sentence'\."),
        ([column(values=None, n_distinct=1001)], r"has more than 1,000 different values, labels at most 200: choose"),
        ([column(values=None, n_distinct=201)], r"has 201 different values, labels at most 200"),
        ([column(values=["0", "0.5", "1"])], r"holds fractions such as 0\.5, so it is a score and not a class"),
        ([column(values=["1"])], r"holds '1' in every row of the train file: choose a column with at least two diff"),
        ([column(unseen=["2", "3"])], r"of the validation file holds '2', '3', which the train file never does"),
        ([column(n_missing_train=1)], r"is empty in 1 row of the train file: fill the cells, or leave those rows out"),
        ([column(n_missing_validation=1200)], r"is empty in 1,200 rows of the validation file"),
        ([column(values=[], n_missing_train=9)], r"is empty in 9 rows of the train file"),
        ([answers(name="label")], r"holds answers and where they begin, not classes: choose the span task, or a"),
    ],
)
def test_invalid_class_column_is_refused(columns, sentence):
    with pytest.raises(InvalidError, match=sentence) as raised:
        check_columns([text(), *columns], CLASSIFICATION, ["sentence"], "label")
    assert raised.value.field == "label_column"
    with pytest.raises(InvalidError, match=r"choose a column with at least two different labels\.$"):
        check_columns([text(), column(values=["1"])], REGRESSION, ["sentence"], "label")


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (score(not_number="n/a"), r"'score' holds 'n/a', expected a finite number in every row for regression: choose"),
        (text("score"), r"'score' holds 'a text', expected a finite number in every row"),
        (text("score", not_number=None), r"'score' holds text, expected a finite number in every row"),
        (answers(name="score"), r"'score' holds '{', expected a finite number"),
        (column("score", ["2.5"], kind=ColumnKind.NUMBER), r"'score' holds '2\.5' in every row of the train file"),
        (score(n_missing_train=3), r"'score' is empty in 3 rows of the train file"),
    ],
)
def test_invalid_score_column_is_refused(label, sentence):
    with pytest.raises(InvalidError, match=sentence) as raised:
        check_columns([text(), label], REGRESSION, ["sentence"], "score")
    assert raised.value.field == "label_column"


@pytest.mark.parametrize(
    ("texts", "label", "field", "sentence"),
    [
        (["question"], "answers", "text_columns", r"Expected two text columns for a span task.*; got 'question'\."),
        (["question", "answers"], "answers", "text_columns", r"'answers' holds answers and where they begin, not text"),
        (["question", "context"], "label", "label_column", r"'label' holds labels such as '0', expected answers and"),
        (["question", "context"], "id", "label_column", r"'id' holds texts, expected .* as in {\"text\": \["),
        (["question", "context"], "title", "label_column", r"'title' is empty in 1 row of the train file"),
    ],
)
def test_invalid_span_columns_are_refused(texts, label, field, sentence):
    columns = [text("question"), text("context"), answers(), column(), text("id"), text("title", n_missing_train=1)]
    with pytest.raises(InvalidError, match=sentence) as raised:
        check_columns(columns, SPAN, texts, label)
    assert raised.value.field == field


@pytest.mark.parametrize("task", TaskKind)
def test_invalid_text_columns_are_refused(task):
    for columns, names, field, sentence in [
        ([text()], ["text"], "text_columns", r"There is no column 'text' in both files: choose one of 'sentence'"),
        ([text("text", n_missing_train=2)], ["text"], "text_columns", r"'text' is empty in 2 rows of the train file"),
        ([text()], ["sentence", "sentence"], "text_columns", r"The same text column was chosen twice"),
        ([text(), column()], ["sentence", "label"], "label_column", r"label column 'label' is also a text column: the"),
    ]:
        with pytest.raises(InvalidError, match=sentence) as raised:
            check_columns(columns, task, names, "label")
        assert raised.value.field == field
