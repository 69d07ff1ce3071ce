import re

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.db.models import Dataset, DatasetOrigin, SealedScore

STEPS = {"epochs": None, "max_steps": 2, "label_names": []}
PAIRS = {"sentence1": ["a film", "the plot is dull"] * 10, "sentence2": ["the film", "the cast was great"] * 10}
STSB = pa.table(PAIRS | {"label": pa.array([5.0, 1.4] * 10, type=pa.float32())})
SST5 = pa.table({"text": ["a very good film", "a bad film"] * 10, "label": [4, 1] * 10,
                 "label_text": ["very positive", "negative"] * 10})  # fmt: skip
ANSWERS = pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))])
ANSWER = {"text": ["very good", "good"], "answer_start": [12, 17]}
SQUAD = pa.table({"question": ["is the film good", "was the plot dull"] * 10, "context": ["the film is very good"] * 20,
                  "answers": pa.array([ANSWER] * 20, type=ANSWERS)})  # fmt: skip


@pytest.fixture
def hub_run(tmp_path, monkeypatch, sessions, dataset_id, train):
    load = datasets.load_dataset

    def hub_run(name, table, n_test=None, **changes):
        path = tmp_path / "rows.parquet"
        pq.write_table(table, path)
        requested = []

        def load_dataset(repo, config_name, *, revision):
            requested.append((repo, config_name, revision))
            files = {split: str(path) for split in ("train", "validation", "test")}
            return load("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        with sessions.begin() as session:
            dataset = session.get(Dataset, dataset_id)
            dataset.origin, dataset.hub_name = DatasetOrigin.HUB, name
            dataset.n_test = n_test
        run = train(**{**STEPS, **changes})
        repo, config_name, revision = requested[0]
        assert re.fullmatch("[0-9a-f]{40}", revision)
        assert run.environment["dataset"] == {"hub": repo, "name": name, "revision": revision}
        return run, (repo, config_name)

    return hub_run


def test_stsb_is_trained_from_hub(hub_run):
    changes = {"task": "regression", "metric": "pearson", "text_columns": ["sentence1", "sentence2"]}
    run, requested = hub_run("stsb", STSB, **changes)
    assert requested == ("nyu-mll/glue", "stsb")
    assert run.performance == run.results.metrics["pearson"]


def test_sst5_is_trained_from_hub(hub_run):
    names = ["very negative", "negative", "neutral", "positive", "very positive"]
    run, requested = hub_run("sst5", SST5, text_columns=["text"], label_column="label_text", label_names=names)
    assert requested == ("SetFit/sst5", None)
    assert run.results.f1_average == "macro"


def test_squad_is_trained_from_hub(hub_run):
    changes = {"task": "span", "metric": "word_f1", "text_columns": ["question", "context"], "stride": 8}
    run, requested = hub_run("squad", SQUAD, label_column="answers", **changes)
    assert requested == ("rajpurkar/squad", "plain_text")
    assert (run.results.n_questions, run.results.n_train_left_out) == (20, 0)


def test_mrpc_test_split_is_scored_by_class_names(hub_run, sessions):
    names = ["not_equivalent", "equivalent"]
    rows = datasets.Dataset.from_dict(PAIRS | {"label": [1, 0] * 10}).cast_column(
        "label", datasets.ClassLabel(names=names)
    )
    changes = {"text_columns": ["sentence1", "sentence2"], "label_names": names}
    run, _ = hub_run("mrpc", rows.with_format("arrow")[:], n_test=20, **changes)
    with sessions() as session:
        assert session.get(SealedScore, run.id).n == 20
