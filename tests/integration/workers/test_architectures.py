import json
import random

import pyarrow as pa
import pytest

from tests.long_cases import mark_long
from tests.tiny import WORDS

MODELS = ["tiny-bert", "tiny-albert", "tiny-distilbert", "tiny-roberta", "tiny-gpt2", "tiny-modernbert"]
# An encoder and a decoder, which pools the last token.
CONTRASTING = {"tiny-bert", "tiny-gpt2"}
STEPS = {"epochs": None, "max_steps": 2, "layers": [2]}


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
