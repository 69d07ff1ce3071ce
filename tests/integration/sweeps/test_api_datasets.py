import gzip
import json

from tests.texts import tsv


def test_dataset_lists_its_columns_and_proposed_task(client):
    assert client.get("/api/datasets").json() == []
    dataset = client.post("/api/datasets", files={"train": tsv(), "validation": tsv(name="validation.tsv")}).json()
    assert (dataset["n_train"], dataset["n_validation"], dataset["hub_name"]) == (20, 20, None)
    assert [column["name"] for column in dataset["columns"]] == ["sentence", "other", "label"]
    label = dataset["columns"][2]
    assert (label["n_distinct"], label["values"]) == (2, ["0", "1"])
    columns = {"text_columns": ["sentence"], "label_column": "label"}
    assert dataset["proposal"] == columns | {"task": "classification", "metric": "accuracy", "n_classes": 2}
    texts = dict.fromkeys(("train", "validation"), ("texts.tsv", "sentence\na\nb\n"))
    assert client.post("/api/datasets", files=texts).json()["proposal"] is None


UNREADABLE = [
    (("train.tsv", b""), "empty"),
    (("train.tsv", b"sentence\tlabel\n"), "no rows"),
    (("train.csv", b"a,b\n1,2\n3\n"), "line 3"),
    (("train.xlsx", b"PK\x03\x04"), ".xlsx"),
    (("train.tsv", b"quite\tdifferent\nx\ty\n"), "no column"),
    (("train.jsonl", b'{"sentence": \n'), "line 1"),
    (("train.parquet", b"PAR1nonsense"), "parquet"),
]


def test_unreadable_rows_are_refused_and_not_stored(client, context):
    for train, sentence in UNREADABLE:
        answer = client.post("/api/datasets", files={"train": train, "validation": tsv(name="validation.tsv")})
        assert answer.status_code in {415, 422}, answer.text
        assert sentence.lower() in answer.json()["detail"].lower()
    assert client.get("/api/datasets").json() == []
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


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


def test_hub_dataset_has_its_published_task(client):
    for name, title, task, metric, n_train in (
        ("stsb", "GLUE STS-B", "regression", "pearson", 5749),
        ("sst5", "SST-5", "classification", "accuracy", 8544),
        ("squad", "SQuAD 1.1", "span", "word_f1", 87599),
        ("cola", "GLUE CoLA", "classification", "matthews", 8551),
    ):
        answer = client.post("/api/datasets/hub", json={"name": name})
        dataset = answer.json()
        assert (answer.status_code, dataset["origin"]) == (201, "hub")
        assert (dataset["name"], dataset["hub_name"], dataset["n_train"]) == (title, name, n_train)
        assert (dataset["proposal"]["task"], dataset["proposal"]["metric"]) == (task, metric)
    assert client.post("/api/datasets/hub", json={"name": "mnli"}).status_code == 422
