import json
import random
import re

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.db.models import Dataset, DatasetOrigin, SealedScore
from tests.long_cases import mark_long
from tests.tiny import WORDS

MODELS = ["tiny-bert", "tiny-albert", "tiny-distilbert", "tiny-roberta", "tiny-gpt2", "tiny-modernbert"]
# An encoder and a decoder, which pools the last token.
CONTRASTING = {"tiny-bert", "tiny-gpt2"}
STEPS = {"epochs": None, "max_steps": 2, "layers": [2]}
HUB_STEPS = {"epochs": None, "max_steps": 2, "label_names": []}
PAIRS = {"sentence1": ["a film", "the plot is dull"] * 10, "sentence2": ["the film", "the cast was great"] * 10}
STSB = pa.table(PAIRS | {"label": pa.array([5.0, 1.4] * 10, type=pa.float32())})
SST5 = pa.table({"text": ["a very good film", "a bad film"] * 10, "label": [4, 1] * 10,
                 "label_text": ["very positive", "negative"] * 10})  # fmt: skip
ANSWERS = pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))])
ANSWER = {"text": ["very good", "good"], "answer_start": [12, 17]}
SQUAD = pa.table({"question": ["is the film good", "was the plot dull"] * 10, "context": ["the film is very good"] * 20,
                  "answers": pa.array([ANSWER] * 20, type=ANSWERS)})  # fmt: skip


def sentences(n):
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(n)]


def scores():
    draw = random.Random(1)
    return pa.table({"first": sentences(60), "second": sentences(60), "score": [draw.uniform(0, 5) for _ in range(60)]})


def questions():
    """Return questions with contexts of 30 words, longer than a window; every tenth answer is missing."""
    draw = random.Random(2)
    rows = {"question": sentences(60), "context": [], "answers": []}
    for number in range(60):
        words = draw.choices(WORDS, k=30)
        begin = draw.randrange(28)
        answer = " ".join(words[begin : begin + 2]) if number % 10 else "plum"
        rows["context"].append(" ".join(words))
        rows["answers"].append(json.dumps({"text": [answer], "answer_start": [len(" ".join([*words[:begin], ""]))]}))
    return pa.table(rows)


@pytest.mark.parametrize("model", MODELS)
def test_classification_trains_every_architecture(train, model):
    run = train(model=model, text_columns=["sentence", "sentence"], **STEPS)
    assert len(run.results.by_layer["isoscore_star"].values) == 2
    assert run.results.reference.pooling == {"tiny-gpt2": "last"}.get(model, run.results.sentences.pooling)
    assert run.environment["max_length"] == 64
    assert run.performance == run.results.metrics["accuracy"]
    assert run.results.metric_reasons == {}


@pytest.mark.parametrize("model", mark_long(MODELS, CONTRASTING.__contains__))
def test_regression_trains_every_architecture(train, use_rows, model):
    use_rows(scores())
    columns = {"text_columns": ["first", "second"], "label_column": "score", "label_names": []}
    run = train(model=model, task="regression", metric="spearman", **columns, **STEPS)
    assert run.performance == run.results.metrics["spearman"]
    assert -1 <= run.results.metrics["pearson"] <= 1
    assert run.results.n_validation == 20


@pytest.mark.parametrize("model", mark_long(MODELS, CONTRASTING.__contains__))
def test_span_task_trains_every_architecture(train, use_rows, model):
    use_rows(questions())
    columns = {"text_columns": ["question", "context"], "label_column": "answers", "label_names": []}
    lengths = {"max_length": 32, "stride": 8}
    run = train(model=model, task="span", metric="word_f1", **columns, **lengths, **STEPS)
    results = run.results
    assert run.performance == results.metrics["word_f1"] >= results.metrics["exact_match"]
    assert (results.n_validation, results.n_questions) == (20, 20)
    assert results.n_windows >= 40
    assert (results.n_train_questions, results.n_train_left_out) == (36, 4)
    assert run.environment["max_length"] == 32


def test_constant_numbers_have_a_reason_instead_of_performance(train, use_rows):
    table = scores()
    use_rows(table.set_column(2, "score", pa.array([1.0] * 60)))
    columns = {"text_columns": ["first"], "label_column": "score", "label_names": []}
    run = train(task="regression", metric="pearson", **columns, **STEPS)
    assert (run.performance, run.results.metrics) == (None, {"pearson": None, "spearman": None})
    assert run.performance_reason == run.results.metric_reasons["pearson"]
    assert run.results.metric_reasons["pearson"].startswith("All validation rows have the same number")
    assert run.isoscore_star is not None


def test_labels_of_one_byte_are_classes(train, use_rows):
    labels = pa.array([0, 1] * 30, type=pa.int8())
    use_rows(pa.table({"sentence": sentences(60), "label": labels}))
    run = train(**STEPS)
    assert run.results.metrics["accuracy"] == run.performance
    assert run.steps[-1].task_loss == pytest.approx(0.69, abs=0.3)


def test_regression_learns_its_numbers(train, use_rows):
    draw = random.Random(3)
    good = [draw.randrange(2) for _ in range(200)]
    texts = [f"the {draw.choice(WORDS[2:5])} was {'good' if is_good else 'bad'}" for is_good in good]
    use_rows(pa.table({"sentence": texts, "label": [3.0 * is_good + 1 for is_good in good]}), n_train=160)
    run = train(task="regression", metric="pearson", label_names=[], lam=0, epochs=10, learning_rate=1e-2)
    assert run.performance > 0.95
    assert run.results.loss < 0.5


@pytest.fixture
def hub_run(tmp_path, monkeypatch, sessions, dataset_id, train):
    load = datasets.load_dataset

    def hub_run(name, table, n_test=None, **changes):
        path = tmp_path / f"{name}.parquet"
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
        run = train(**{**HUB_STEPS, **changes})
        repo, config_name, revision = requested[0]
        assert re.fullmatch("[0-9a-f]{40}", revision)
        assert run.environment["dataset"] == {"hub": repo, "name": name, "revision": revision}
        return run, (repo, config_name)

    return hub_run


def test_data_sets_are_trained_from_hub(hub_run):
    changes = {"task": "regression", "metric": "pearson", "text_columns": ["sentence1", "sentence2"]}
    run, requested = hub_run("stsb", STSB, **changes)
    assert requested == ("nyu-mll/glue", "stsb")
    assert run.performance == run.results.metrics["pearson"]
    names = ["very negative", "negative", "neutral", "positive", "very positive"]
    run, requested = hub_run("sst5", SST5, text_columns=["text"], label_column="label_text", label_names=names)
    assert requested == ("SetFit/sst5", None)
    assert run.results.f1_average == "macro"
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
