"""Data sets and sweeps over HTTP. What training itself does is shown in tests/integration/workers."""

import gzip
import json

import pytest

from app.db.models import Run, RunStatus

ROWS = "sentence\tother\tlabel\n" + "".join(f"text {i}\tmore {i}\t{i % 2}\n" for i in range(20))


def tsv(rows: str = ROWS, name: str = "train.tsv"):
    return (name, rows.encode())


@pytest.fixture
def dataset(client):
    return client.post("/api/datasets", files={"train": tsv(), "validation": tsv(name="validation.tsv")}).json()


@pytest.fixture
def request_body(dataset):
    return {
        "model": "all-MiniLM-L6-v2",
        "dataset_id": dataset["id"],
        "text_columns": ["sentence"],
        "label_column": "label",
        "regularizer": "istar",
        "lambdas": [-1, 1],
        "seeds": [0, 1],
    }


def test_a_data_set_is_described_by_its_columns(dataset):
    assert (dataset["n_train"], dataset["n_validation"]) == (20, 20)
    assert [column["name"] for column in dataset["columns"]] == ["sentence", "other", "label"]
    label = dataset["columns"][2]
    assert (label["n_distinct"], label["values"]) == (2, ["0", "1"])


def test_a_sweep_has_a_run_for_each_lambda_and_seed_and_a_baseline_for_each_seed(client, context, request_body):
    answer = client.post("/api/experiments", json=request_body)
    assert answer.status_code == 201
    runs = answer.json()["runs"]
    assert [(run["seed"], run["lam"]) for run in runs] == [(s, lam) for s in (0, 1) for lam in (-1, 0, 1)]
    assert [run["regularizer"] for run in runs] == ["istar", "none", "istar"] * 2
    assert {run["status"] for run in runs} == {"queued"}
    assert context.queue.active() == {f"finetune-{run['id']}" for run in runs}


def test_without_a_regularizer_there_is_one_run_for_each_seed(client, request_body):
    runs = client.post("/api/experiments", json=request_body | {"regularizer": "none"}).json()["runs"]
    assert [(run["seed"], run["lam"]) for run in runs] == [(0, 0), (1, 0)]


def test_a_row_holds_all_that_is_needed_to_repeat_the_run(client, request_body):
    created = client.post("/api/experiments", json=request_body).json()
    config = client.get(f"/api/runs/{created['runs'][0]['id']}").json()["config"]
    assert (config["lam"], config["zeta"], config["seed"]) == (-1, 0.2, 0)
    assert (config["epochs"], config["batch_size"], config["learning_rate"]) == (3, 16, 3e-5)
    assert config["label_names"] == ["0", "1"]


def test_cancelling_one_and_all(client, context, request_body):
    created = client.post("/api/experiments", json=request_body).json()
    first = created["runs"][0]["id"]
    assert client.post(f"/api/runs/{first}/cancel").json()["status"] == "cancelled"
    again = client.post(f"/api/runs/{first}/cancel")
    assert again.status_code == 409
    assert "this one is cancelled" in again.json()["detail"]
    answer = client.post(f"/api/experiments/{created['id']}/cancel").json()
    assert {run["status"] for run in answer["runs"]} == {"cancelled"}
    assert answer["status"] == "cancelled"
    assert context.queue.active() == set()


def test_deleting_waits_for_the_runs_and_takes_the_data_set_last(client, context, request_body, dataset):
    created = client.post("/api/experiments", json=request_body).json()
    path = f"/api/experiments/{created['id']}"
    assert "6 of its runs wait or run" in client.delete(path).json()["detail"]
    in_use = client.delete(f"/api/datasets/{dataset['id']}")
    assert (in_use.status_code, "is used by an experiment" in in_use.json()["detail"]) == (409, True)
    client.post(f"{path}/cancel")
    assert client.delete(path).status_code == 204
    with context.sessions() as session:
        assert session.query(Run).count() == 0
    assert client.delete(f"/api/datasets/{dataset['id']}").status_code == 204
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"lambdas": ["abc"]}, "lambdas", "as a number"),
        ({"lambdas": [float("nan")]}, "lambdas", "finite"),
        ({"lambdas": []}, "lambdas", "at least 1"),
        ({"zeta": 1.5}, "zeta", "up to 1"),
        ({"seeds": [-1]}, "seeds", "of at least 0"),
        ({"model": "no such model!"}, "model", "got 'no such model!'"),
        ({"model": "../../etc"}, "model", "got '../../etc'"),
        ({"text_columns": ["nope"]}, "text_columns", "nope"),
        ({"label_column": "nope"}, "label_column", "nope"),
        ({"label_column": "sentence"}, "label_column", "the model would read the answer"),
        ({"dataset_id": "nope"}, "dataset_id", "There is no data set 'nope'"),
        ({"layers": [7]}, "layers", "Expected layers from 1 to 6"),
        ({"layers": [0]}, "layers", "of at least 1"),
        ({"layers": []}, "layers", "at least 1"),
        ({"token_fraction": 0}, "token_fraction", "above 0"),
        ({"token_fraction": 1.5}, "token_fraction", "up to 1"),
        ({"label_names": ["a", "b"]}, "label_names", "not permitted"),
        ({"model": "foo--bar"}, "model", "got 'foo--bar'"),
        ({"model": "a/b.git"}, "model", "got 'a/b.git'"),
        ({"epochs": 1, "max_steps": 5}, None, "either epochs or max_steps"),
        ({"unknown": 1}, "unknown", "not permitted"),
        ({"lambdas": list(range(1, 100)), "seeds": list(range(9))}, "lambdas", "at most 500 runs"),
    ],
)
def test_a_wrong_request_is_refused_at_its_field_and_nothing_is_written(client, request_body, change, field, sentence):
    # json.dumps, because NaN must reach the server as a careless client would send it.
    body = json.dumps(request_body | change)
    answer = client.post("/api/experiments", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {404, 422}
    assert sentence in answer.json()["detail"]
    assert answer.json()["field"] == field
    assert client.get("/api/experiments").json() == []


def test_an_unknown_model_is_refused_naming_what_there_is(client, request_body, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    answer = client.post("/api/experiments", json=request_body | {"model": "someone/some-model"})
    assert (answer.status_code, answer.json()["field"]) == (422, "model")
    assert "all-MiniLM-L6-v2" in answer.json()["detail"]


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


def test_a_label_column_of_5000_values_is_refused(client, request_body):
    rows = "sentence\tlabel\n" + "".join(f"text {i}\t{i}\n" for i in range(5000))
    many = client.post("/api/datasets", files={"train": tsv(rows), "validation": tsv(rows, "v.tsv")}).json()
    answer = client.post("/api/experiments", json=request_body | {"dataset_id": many["id"]})
    assert (answer.status_code, answer.json()["field"]) == (422, "label_column")


def test_a_run_that_finished_cannot_be_cancelled(client, context, request_body):
    run_id = client.post("/api/experiments", json=request_body).json()["runs"][0]["id"]
    with context.sessions.begin() as session:
        session.get(Run, run_id).status = RunStatus.FINISHED
    assert client.post(f"/api/runs/{run_id}/cancel").status_code == 409


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
