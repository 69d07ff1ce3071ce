"""Data sets over HTTP: what columns hold, the task that is proposed, and tasks of the Hub."""

import gzip
import json

import pytest

from tests.texts import tsv


def test_a_data_set_is_described_by_its_columns(dataset):
    assert (dataset["n_train"], dataset["n_validation"]) == (20, 20)
    assert [column["name"] for column in dataset["columns"]] == ["sentence", "other", "label"]
    label = dataset["columns"][2]
    assert (label["n_distinct"], label["values"]) == (2, ["0", "1"])


@pytest.mark.parametrize(
    ("train", "sentence"),
    [
        (("train.tsv", b""), "empty"),
        (("train.tsv", b"sentence\tlabel\n"), "no rows"),
        (("train.csv", b"a,b\n1,2\n3\n"), "line 3"),
        (("train.xlsx", b"PK\x03\x04"), ".xlsx"),
        (("train.tsv", b"quite\tdifferent\nx\ty\n"), "no column"),
        (("train.jsonl", b'{"sentence": \n'), "line 1"),
        (("train.parquet", b"PAR1nonsense"), "parquet"),
    ],
)
def test_unreadable_rows_are_refused_and_nothing_is_kept(client, context, train, sentence):
    answer = client.post("/api/datasets", files={"train": train, "validation": tsv(name="validation.tsv")})
    assert answer.status_code in {415, 422}, answer.text
    assert sentence.lower() in answer.json()["detail"].lower()
    assert client.get("/api/datasets").json() == []
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


def test_a_data_set_proposes_the_task_it_looks_like(client):
    assert client.get("/api/datasets").json() == []
    answer = client.post("/api/datasets", files={"train": tsv(), "validation": tsv(name="validation.tsv")}).json()
    assert answer["hub_name"] is None
    assert answer["proposal"] == {
        "task": "classification",
        "text_columns": ["sentence"],
        "label_column": "label",
        "metric": "accuracy",
        "n_classes": 2,
    }
    texts = dict.fromkeys(("train", "validation"), ("texts.tsv", "sentence\na\nb\n"))
    assert client.post("/api/datasets", files=texts).json()["proposal"] is None


def test_gzipped_rows_of_questions_are_a_span_task(client):
    row = {"question": "Where?", "context": "It is here.", "answers": {"text": ["here"], "answer_start": [6]}}
    content = gzip.compress(f"{json.dumps(row)}\n".encode() * 3)
    files = {name: (f"{name}.jsonl.gz", content) for name in ("train", "validation")}
    answer = client.post("/api/datasets", files=files).json()
    assert (answer["name"], answer["n_train"], answer["columns"][2]["examples"]) == ("train", 3, ["here"])
    assert (answer["proposal"]["task"], answer["proposal"]["metric"]) == ("span", "word_f1")
    damaged = client.post("/api/datasets", files=files | {"train": ("train.jsonl.gz", content[:-9])})
    assert (damaged.status_code, damaged.json()["field"]) == (422, "train")
    assert "train.jsonl.gz: The gzip file ends early or is damaged" in damaged.json()["detail"]


@pytest.mark.parametrize(
    ("name", "title", "task", "metric", "n_train"),
    [
        ("stsb", "GLUE STS-B", "regression", "pearson", 5749),
        ("sst5", "SST-5", "classification", "accuracy", 8544),
        ("squad", "SQuAD 1.1", "span", "word_f1", 87599),
    ],
)
def test_a_task_of_the_hub_is_proposed_as_it_is_published(client, name, title, task, metric, n_train):
    answer = client.post("/api/datasets/hub", json={"name": name}).json()
    assert (answer["name"], answer["hub_name"], answer["n_train"]) == (title, name, n_train)
    assert (answer["proposal"]["task"], answer["proposal"]["metric"]) == (task, metric)


def test_a_glue_task_is_named_not_uploaded(client):
    answer = client.post("/api/datasets/hub", json={"name": "cola"})
    assert answer.status_code == 201
    assert (answer.json()["origin"], answer.json()["n_train"]) == ("hub", 8551)
    assert client.post("/api/datasets/hub", json={"name": "mnli"}).status_code == 422
