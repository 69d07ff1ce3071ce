import pytest
from sqlalchemy import select

from app.db.models import Dataset, Run, RunStatus, SealedScore, Split
from app.db.predictions import read_predictions
from tests.tiny import make_table
from workers.training.evaluation import SealedEvaluation, hash_rows
from workers.training.job import fine_tune


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
