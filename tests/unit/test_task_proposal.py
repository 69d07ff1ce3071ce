import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.db.hub_tasks import TASKS, HubName
from app.training.columns import check_columns, guess_task, propose_task
from isoscope.core.task import METRICS, Metric, TaskKind
from isoscope.files.columns import describe_dataset

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
