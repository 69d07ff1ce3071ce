import json
import random
import re

import pyarrow as pa
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from sqlalchemy import select

from app.db.learning import divergence_note, no_learning_note
from app.db.models import Dataset, Run, RunStatus, SealedScore, Split
from app.db.predictions import read_predictions
from tests.tiny import WORDS, make_table
from workers.training.evaluation import SealedEvaluation, hash_rows
from workers.training.job import fine_tune
from workers.training.tasks.questions import exact_match, word_f1

STEPS = {"epochs": None, "max_steps": 3, "lam": 0}


def read_stored(sessions, run_id):
    with sessions() as session:
        return read_predictions(session, [run_id], Split.VALIDATION)[run_id]


def train_and_read(train, sessions, **changes):
    run = train(**changes)
    return run, read_stored(sessions, run.id)


def texts(n, words=8):
    draw = random.Random(n)
    return [" ".join(draw.choices(WORDS, k=words)) for _ in range(n)]


@pytest.mark.parametrize("rows", [None, 17])
def test_class_metrics_and_best_constant_match_stored_rows(train, sessions, rows):
    run, predictions = train_and_read(train, sessions, metric="f1", validation_rows=rows, **STEPS)
    assert len(predictions) == run.results.n_validation == (rows or 40)
    # Rows have their positions in the file, whichever subset was drawn.
    labels = [int(line.rpartition(b"\t")[2]) for line in make_table(40, 2).splitlines()[1:]]
    assert predictions.reference.tolist() == [labels[row] for row in predictions.rows]
    assert run.results.metrics == pytest.approx(
        {
            "accuracy": accuracy_score(predictions.reference, predictions.predicted),
            "f1": f1_score(predictions.reference, predictions.predicted),
            "matthews": matthews_corrcoef(predictions.reference, predictions.predicted),
        }
    )
    constant = [1] * len(predictions)
    assert run.results.trivial.metrics == pytest.approx(
        {
            "accuracy": accuracy_score(predictions.reference, constant),
            "f1": f1_score(predictions.reference, constant),
            "matthews": 0,
        }
    )
    assert run.results.trivial.predictor.startswith("always “1”, ")


def test_correlations_match_stored_rows(train, sessions, use_rows):
    draw = random.Random(1)
    scores = [round(draw.uniform(0, 5), 1) for _ in range(60)]
    rows = use_rows(pa.table({"sentence": texts(60), "label": scores}))
    run, predictions = train_and_read(train, sessions, task="regression", metric="spearman", label_names=[], **STEPS)
    assert predictions.rows.tolist() == list(range(20))
    assert predictions.reference == pytest.approx([row["label"] for row in rows])
    correlations = {"pearson": pearsonr, "spearman": spearmanr}
    expected = {name: fn(predictions.reference, predictions.predicted).statistic for name, fn in correlations.items()}
    assert run.results.metrics == pytest.approx(expected, rel=1e-12)
    match = re.fullmatch("always (.*), the mean of the training rows", run.results.trivial.predictor)
    assert float(match[1]) == pytest.approx(sum(scores[:-20]) / 40, abs=1e-3)
    assert run.results.trivial.metrics == {"pearson": None, "spearman": None}
    assert "correlates with nothing" in run.results.trivial.reasons["spearman"]


def test_span_scores_match_stored_rows_also_in_windows(train, sessions, use_rows):
    contexts, questions = texts(60, words=40), texts(60)
    answers = [{"text": [" ".join(text.split()[9:11])], "answer_start": [len(" ".join(text.split()[:9])) + 1]}
               for text in contexts]  # fmt: skip
    table = {"question": questions, "context": contexts, "answers": [json.dumps(answer) for answer in answers]}
    rows = use_rows(pa.table(table))
    columns = {"text_columns": ["question", "context"], "label_column": "answers", "label_names": []}
    options = {"task": "span", "metric": "word_f1", "max_length": 32, "stride": 8, "validation_rows": 9}
    run, predictions = train_and_read(train, sessions, **options, **columns, **STEPS)
    assert run.results.n_windows > run.results.n_questions == len(predictions) == 9
    references = [json.loads(rows[row]["answers"])["text"] for row in predictions.rows]
    for stored, score in ((predictions.exact_match, exact_match), (predictions.f1, word_f1)):
        expected = [score(*pair) for pair in zip(predictions.predicted, references, strict=True)]
        assert stored.tolist() == expected
    assert run.results.metrics == pytest.approx(
        {"exact_match": predictions.exact_match.mean(), "word_f1": predictions.f1.mean()}
    )
    assert all(text in rows[row]["context"] for text, row in zip(predictions.predicted, predictions.rows, strict=True))
    # An empty answer is right if the reference holds only articles.
    empty = sum(exact_match("", texts_) for texts_ in references) / 9
    assert run.results.trivial.metrics == pytest.approx({"exact_match": empty, "word_f1": empty})


def test_diverged_training_is_noted(train, sessions):
    """A learning rate of 1 and a lambda of a million. The final loss depends on the CPU."""
    run, _ = train_and_read(train, sessions, learning_rate=1, lam=1e6, epochs=3)
    assert run.results.divergence.loss > 2 * run.results.divergence.start
    assert divergence_note(run).startswith("Training diverged: its task loss ended at ")
    assert divergence_note(run) in run.notes


def test_only_training_that_moves_no_weight_learned_nothing(train, sessions):
    run, predictions = train_and_read(train, sessions, learning_rate=1e-9, lam=0, epochs=1)
    assert predictions.constant is not None
    assert no_learning_note(run) == f"Every validation row was predicted as “{predictions.constant}”."
    run, predictions = train_and_read(train, sessions, lam=0, epochs=12, learning_rate=1e-2)
    assert run.performance > 0.9
    assert (divergence_note(run), no_learning_note(run), run.notes) == (None, None, [])
    assert (run.results.divergence, run.results.constant_prediction, predictions.constant) == (None, None, None)


def test_killed_run_stores_the_same_predictions(train, kill, resume, sessions):
    options = {"epochs": None, "max_steps": 4, "lam": 0}
    _, uninterrupted = train_and_read(train, sessions, **options)
    assert read_stored(sessions, resume(kill(2, options)).id).pack() == uninterrupted.pack()


@pytest.fixture
def add_test(sessions, dataset_id, store):
    def add_test(content, name="test.tsv"):
        with sessions.begin() as session:
            dataset = session.get(Dataset, dataset_id)
            dataset.test_sha256, dataset.test_filename, dataset.n_test = store(content), name, 30

    return add_test


def read_scores(sessions):
    with sessions() as session:
        return {score.run_id: score for score in session.scalars(select(SealedScore))}


def test_run_scores_test_rows_without_revealing_scores(settings, sessions, add_test, make_run, get_run, train, caplog):
    caplog.set_level("DEBUG")
    add_test(make_table(30, 3))
    run = train()
    sealed = read_scores(sessions)[run.id]
    assert sealed.n == 30
    assert sealed.metrics.keys() == run.results.metrics.keys()
    assert 0 <= sealed.metrics["accuracy"] <= 1
    with sessions() as session:
        predicted = read_predictions(session, [run.id], Split.TEST)[run.id]
    assert list(predicted.rows) == list(range(30))
    assert (predicted.predicted == predicted.reference).mean() == pytest.approx(sealed.metrics["accuracy"])
    assert run.environment["dataset"].keys() == {"train_sha256", "validation_sha256", "test_sha256"}

    validation_only = make_run()
    with sessions.begin() as session:
        session.get(Dataset, session.get(Run, validation_only).experiment.dataset_id).n_test = None
    fine_tune(validation_only, settings, "cpu")
    plain = get_run(validation_only)
    assert plain.results == run.results
    assert [(row.task_loss, row.penalty) for row in plain.steps] == [(row.task_loss, row.penalty) for row in run.steps]
    assert validation_only not in read_scores(sessions)
    public = " ".join(str(getattr(run, column.key)) for column in Run.__table__.columns)
    public += " ".join(str(step.layers) for step in run.steps) + caplog.text
    for value in sealed.metrics.values():
        if value not in run.results.metrics.values():
            assert repr(value) not in public


def test_score_is_written_with_results_or_not_at_all(settings, sessions, add_test, make_run, get_run, monkeypatch):
    def write(self, session, run_id):
        raise RuntimeError("away")

    add_test(make_table(30, 3))
    monkeypatch.setattr(SealedEvaluation, "write", write)
    run_id = make_run()
    fine_tune(run_id, settings, "cpu")
    assert (get_run(run_id).status, get_run(run_id).results) == (RunStatus.FAILED, None)
    assert read_scores(sessions) == {}


@pytest.mark.parametrize(
    ("labels", "sentence"), [((-1, -1), "no labels"), ((1, 7), "test.tsv: Row 2 has the label '7'")]
)
def test_unscorable_rows_fail_run_before_training(settings, add_test, make_run, get_run, labels, sentence):
    add_test("sentence\tlabel\nthe film is good\t{}\nthe plot is dull\t{}\n".format(*labels).encode())
    run_id = make_run()
    fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert run.status is RunStatus.FAILED
    assert sentence in run.error
    assert run.steps == []


def test_rows_hash_ignores_order_and_column_names():
    columns = {"a": ["x", "y"], "b": ["p", "q"], "label": ["1", "0"]}
    name = hash_rows(columns, ["a", "b"], "label")
    turned = {"other": ["y", "x"], "b": ["q", "p"], "score": [0, 1.0]}
    assert hash_rows(turned, ["other", "b"], "score") == name
    for changed in ({"a": ["x", "z"]}, {"label": ["1", "1"]}, {"a": ["p", "y"], "b": ["x", "q"]}):
        assert hash_rows(columns | changed, ["a", "b"], "label") != name
    twice = {column: [*values, values[0]] for column, values in columns.items()}
    assert hash_rows(twice, ["a", "b"], "label") != name
