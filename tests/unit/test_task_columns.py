import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.db.hub_tasks import TASKS, HubName
from app.training.columns import check_columns, guess_task, propose_task
from isoscope.core.errors import InvalidError
from isoscope.core.task import METRICS, Metric, TaskKind
from isoscope.files.columns import Column, ColumnKind, describe_dataset

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


ROWS = 240
CONTENTS = {
    "texts": [f"a text, number {i}" for i in range(ROWS)],
    "yes or no": ["yes", "no"] * (ROWS // 2),
    "zero or one": [0, 1] * (ROWS // 2),
    "scores": [i / 10 for i in range(ROWS)],
    "half points": [i % 9 / 2 for i in range(ROWS)],
    "five ratings": list(range(1, 6)) * (ROWS // 5),
    "counts": list(range(ROWS)),
    "answers": [{"text": ["here"], "answer_start": [i]} for i in range(ROWS)],
}
NAMES = ("sentence", "sentence1", "sentence2", "question", "context", "label", "score", "idx", "review", "grade")


@pytest.fixture(scope="session")
def described(tmp_path_factory):
    path = tmp_path_factory.mktemp("proposal") / "rows.jsonl"

    def describe(columns):
        rows = [{name: CONTENTS[held][i] for name, held in columns.items()} for i in range(ROWS)]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return describe_dataset(path, path.name, path, path.name).columns

    return describe


@pytest.mark.parametrize(
    ("columns", "summary"),
    [
        ({"sentence": "texts", "label": "zero or one"}, "classification: sentence → label, 2 classes"),
        ({"idx": "counts", "question": "texts", "sentence": "texts", "label": "yes or no"},
         "pair classification: question + sentence → label, 2 classes"),
        ({"id": "counts", "question1": "texts", "question2": "texts", "label": "zero or one"},
         "pair classification: question1 + question2 → label, 2 classes"),
        ({"hypothesis": "texts", "premise": "texts", "label": "five ratings"},
         "pair classification: premise + hypothesis → label, 5 classes"),
        ({"sentence1": "texts", "sentence2": "texts", "score": "half points"},
         "pair regression: sentence1 + sentence2 → score"),
        ({"Text": "texts", "Label": "scores"}, "regression: Text → Label"),
        ({"text": "texts", "label": "counts"}, "regression: text → label"),
        ({"text": "texts", "label": "zero or one", "label_text": "yes or no"},
         "classification: text → label, 2 classes"),
        ({"title": "yes or no", "context": "texts", "question": "texts", "answers": "answers"},
         "span: question + context → answers"),
        ({"passage": "texts", "query": "texts", "found": "answers"}, "span: passage + query → found"),
        ({"review": "texts", "stars": "five ratings"}, "classification: review → stars, 5 classes"),
        ({"id": "texts", "review": "texts", "grade": "scores"}, "regression: review → grade"),
        ({"a": "texts", "b": "texts", "c": "texts", "kind": "yes or no"},
         "pair classification: a + b → kind, 2 classes"),
    ],
)  # fmt: skip
def test_task_is_inferred_from_names_and_contents(described, columns, summary):
    assert guess_task(described(columns)).summary == summary


@pytest.mark.parametrize(
    "columns",
    [
        {"sentence": "texts"},
        {"sentence": "texts", "idx": "counts"},
        {"label": "zero or one", "idx": "counts"},
        {"question": "texts", "answers": "answers"},
    ],
)
def test_no_task_is_proposed_without_texts_or_labels(described, columns):
    assert guess_task(described(columns)) is None


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(columns=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(list(CONTENTS)), min_size=1))
def test_proposed_task_passes_column_checks(described, columns):
    likely_task = described(columns)
    if proposal := guess_task(likely_task):
        names = check_columns(likely_task, proposal.task, proposal.text_columns, proposal.label_column)
        assert len(names) == (proposal.n_classes or 0)
        assert proposal.metric is METRICS[proposal.task][0]


@pytest.mark.parametrize("name", HubName)
def test_hub_task_is_proposed_as_published(name):
    task = TASKS[name]
    columns = task.columns()
    proposal = propose_task(name.value, columns)
    names = check_columns(columns, proposal.task, proposal.text_columns, proposal.label_column)
    assert names == list(task.labels)
    assert (proposal.task, proposal.metric) == (task.task, task.metric)
    guessed = guess_task(columns)
    assert (guessed.task, guessed.text_columns) == (task.task, proposal.text_columns)


def test_uploaded_data_set_is_proposed_from_columns(described):
    columns = described({"sentence": "texts", "score": "scores"})
    proposal = propose_task(None, columns)
    assert (proposal.task, proposal.metric, proposal.n_classes) == (TaskKind.REGRESSION, Metric.PEARSON, None)
    assert (proposal.text_columns, proposal.label_column) == (["sentence"], "score")


def test_hub_tasks_pin_commit_and_metric():
    assert set(TASKS) == set(HubName)
    for task in TASKS.values():
        assert re.fullmatch(r"[0-9a-f]{40}", task.source.revision)
        assert task.metric in METRICS[task.task]
    other_metrics = {name: task.metric for name, task in TASKS.items() if task.metric is not Metric.ACCURACY}
    assert other_metrics == {HubName.COLA: Metric.MATTHEWS, HubName.STSB: Metric.PEARSON, HubName.SQUAD: Metric.WORD_F1}


@pytest.mark.parametrize("name", HubName)
def test_task_columns_are_its_texts_and_label(name):
    task = TASKS[name]
    *texts, label = task.columns()
    assert tuple(column.name for column in texts) == task.text_columns
    assert (label.name, label.values) == (task.label_column, list(task.labels) or None)
    assert (len(task.labels) >= 2) == (task.task is TaskKind.CLASSIFICATION)
