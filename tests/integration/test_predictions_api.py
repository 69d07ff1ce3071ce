import csv
import io
import json
import sys

import numpy as np
import pytest

from app.db.models import Run, RunPredictions, RunStatus, Split, Step
from app.db.predictions import Predictions, read_predictions, write_predictions
from app.db.run_results import RunResults
from app.main import create_app
from app.results.archive.reading import check_archive
from app.results.logged_predictions import MAX_ROWS
from isoscope.cli import main
from isoscope.client import Isoscope
from isoscope.core.errors import IsoscopeError
from tests.archives import add_experiment as add_archived
from tests.archives import export, pack, send, unpack
from tests.factories import add_experiment, run_row
from tests.serving import serve_in_thread

RUN = {"experiment": "mine", "dataset": "reviews", "model": "my-bert", "task": "classification", "metric": "accuracy",
        "regularizer": "none", "lam": 0.0, "seed": 3}  # fmt: skip
TASKS = {
    "classification": ("accuracy", {"reference": [0, 1, 1], "predicted": [0, 1, 0]}),
    "regression": ("pearson", {"reference": [0.5, 1, 2.5], "predicted": [0.25, 1e-9, 3]}),
    "span": ("word_f1", {"predicted": ["=1+1", "", "zwei Wörter"], "exact_match": [1, 0, 0], "f1": [1, 0, 0.5]}),
}
ROWS = {"rows": [7, 2, 4]}


def begin(client, **changes):
    answer = client.post("/api/runs", json=RUN | changes)
    assert answer.is_success, answer.text
    return answer.json()["id"]


def log(client, run, **columns):
    return client.post(f"/api/runs/{run}/predictions", json=columns)


def read_stored(context, run, split=Split.VALIDATION):
    with context.sessions() as session:
        return read_predictions(session, [run], split).get(run)


def test_logged_predictions_are_read_back_as_json_and_csv(client, context):
    for task, (metric, columns) in TASKS.items():
        run = begin(client, experiment=task, task=task, metric=metric)
        assert log(client, run, **ROWS, **columns).status_code == 200
        answer = client.get(f"/api/runs/{run}/predictions")
        predictions = answer.json()
        assert (answer.headers["X-Total-Count"], [row["row"] for row in predictions]) == ("3", [2, 4, 7])
        for name, values in columns.items():
            assert [row[name] for row in predictions] == [values[1], values[2], values[0]]
        assert client.get(f"/api/runs/{run}/predictions", params={"limit": 1, "offset": 2}).json() == predictions[2:]
        file = client.get(f"/api/runs/{run}/predictions", params={"format": "csv"})
        assert file.headers["content-type"].startswith("text/csv")
        assert "attachment" in file.headers["content-disposition"]
        lines = list(csv.DictReader(io.StringIO(file.text)))
        assert [int(line["row"]) for line in lines] == [2, 4, 7]
        predicted = [str(row["predicted"]) for row in predictions]
        assert [line["predicted"] for line in lines] == ["'=1+1" if label == "=1+1" else label for label in predicted]


@pytest.mark.both_databases
def test_logged_rows_are_replaced_and_read_by_run_and_split(client, context):
    run = begin(client)
    log(client, run, rows=[0, 1], reference=[1, 1], predicted=[0, 0])
    log(client, run, rows=[3, 1], reference=[0, 1], predicted=[0, 1])
    predictions_by_run = read_stored(context, run)
    assert (predictions_by_run.rows.tolist(), predictions_by_run.predicted.tolist()) == ([0, 1, 3], [0, 1, 0])
    add_experiment(context, *(run_row(seed=seed, id=f"{seed:032x}") for seed in range(3)))
    first, second, third = (f"{seed:032x}" for seed in range(3))
    with context.sessions.begin() as session:
        write_predictions(session, first, Split.VALIDATION, predictions([0, 1, 1]))
        write_predictions(session, first, Split.TEST, predictions([1]))
        write_predictions(session, second, Split.VALIDATION, predictions([0, 0]))
    with context.sessions.begin() as session:
        write_predictions(session, first, Split.VALIDATION, predictions([1, 1, 1, 1]))  # replaces the first
    with context.sessions() as session:
        predictions_by_run = read_predictions(session, [first, second, third], Split.VALIDATION)
        expected = {first: [1, 1, 1, 1], second: [0, 0]}
        assert {
            run_id: stored_rows.predicted.tolist() for run_id, stored_rows in predictions_by_run.items()
        } == expected
        assert read_predictions(session, [second], Split.TEST) == {}
    with context.sessions.begin() as session:
        session.delete(session.get_one(Run, first))
    with context.sessions() as session:
        assert {stored_rows.run_id for stored_rows in session.query(RunPredictions)} == {run, second}


def test_invalid_predictions_are_refused(client, context):
    cases = [
        ({"rows": [0, 0], "reference": [0, 1], "predicted": [0, 1]}, "twice"),
        ({"rows": [0, 1], "reference": [0], "predicted": [0, 1]}, "as many as rows"),
        ({"rows": [0], "predicted": [1]}, "reference"),
        ({"rows": [0], "reference": [0], "predicted": [0.5]}, "whole numbers"),
        ({"rows": [0], "reference": [0], "predicted": ["yes"]}, "numbers, got text"),
        ({"rows": [0], "reference": [0], "predicted": [1], "f1": [1]}, "only with answers"),
        ({"rows": [-1], "reference": [0], "predicted": [1]}, "at least 0"),
        ({"rows": [], "reference": [], "predicted": []}, "rows"),
        ({"rows": [0], "reference": [0], "predicted": [1e300]}, "predicted"),
        ({"rows": [0], "reference": [0], "predicted": [1e20]}, "xpected classes up to"),
        ({"rows": list(range(10_001)), "reference": [0] * 10_001, "predicted": [0] * 10_001}, "rows"),
    ]  # fmt: skip
    for columns, keyword in cases:
        run = begin(client)
        answer = log(client, run, **columns)
        assert answer.status_code == 422
        assert keyword in answer.text
        assert read_stored(context, run) is None
    answer = log(client, begin(client, experiment="span", task="span", metric="word_f1"), rows=[0], predicted=["a"])
    assert (answer.status_code, "exact_match" in answer.json()["detail"]) == (422, True)
    run = begin(client)
    with context.sessions.begin() as session:
        full = np.zeros(MAX_ROWS, dtype=np.int64)
        write_predictions(session, run, Split.VALIDATION, Predictions(np.arange(MAX_ROWS), full, full))
    answer = log(client, run, rows=[MAX_ROWS], reference=[0], predicted=[0])
    assert (answer.status_code, answer.json()["field"]) == (413, "rows")
    run = begin(client)
    assert client.post(f"/api/runs/{run}/finish", json={"metrics": {"accuracy": 0.5}}).status_code == 200
    assert log(client, run, rows=[0], reference=[0], predicted=[0]).status_code == 409
    add_experiment(context, run_row(id="0" * 32))
    assert log(client, "0" * 32, rows=[0], reference=[0], predicted=[0]).status_code == 409
    assert log(client, "1" * 32, rows=[0], reference=[0], predicted=[0]).status_code == 404


def test_finished_run_reports_best_constant_and_divergence(client, context):
    run = begin(client)
    log(client, run, rows=[0, 1, 2, 3], reference=[5, 5, 5, 9], predicted=[5, 5, 5, 5])
    client.post(f"/api/runs/{run}/finish", json={"metrics": {"accuracy": 0.75}})
    reported = client.get(f"/api/runs/{run}").json()
    assert reported["results"]["trivial"]["predictor"] == "always “5”, the most frequent class of the validation rows"
    assert reported["results"]["trivial"]["metrics"] == {"accuracy": 0.75, "f1": 0.0, "matthews": 0.0}
    assert reported["results"]["n_validation"] == 4
    assert reported["learned_nothing"] == "Every validation row was predicted as “5”."
    run = begin(client)
    steps = [{"step": step, "task_loss": 0.7 if step < 5 else 90.0} for step in range(20)]
    client.post(f"/api/runs/{run}/steps", json={"steps": steps})
    client.post(f"/api/runs/{run}/finish", json={"metrics": {"accuracy": 0.5}})
    reported = client.get(f"/api/runs/{run}").json()
    assert reported["diverged"] == "Training diverged: its task loss ended at 90, after starting at 0.7."
    assert reported["diverged"] in reported["notes"]
    lost = begin(client, seed=4)
    client.post(f"/api/runs/{lost}/steps", json={"steps": [
        {"step": 1, "task_loss": 0.7}, {"step": 2, "layers": {"isoscore_star": [0.5]}},
        {"step": 3, "task_loss": None, "reason": "task_loss is not a number"},
    ]})  # fmt: skip
    client.post(f"/api/runs/{lost}/finish", json={"metrics": {"accuracy": 0.5}})
    assert "not a number" in client.get(f"/api/runs/{lost}").json()["diverged"]
    add_experiment(context, run_row(id="0" * 32))
    answer = client.get(f"/api/runs/{'0' * 32}/predictions")
    assert (answer.status_code, "earlier versions" in answer.json()["detail"]) == (404, True)
    assert client.get("/api/runs/none/predictions").status_code == 404
    run = client.get(f"/api/runs/{'0' * 32}").json()
    assert (run["learned_nothing"], run["diverged"]) == (None, None)


@pytest.fixture
def archived(client, context):
    """Ids of an experiment and of its run whose predictions fill several lines of the export."""
    experiment = add_archived(context)
    with context.sessions.begin() as session:
        run = session.query(Run).filter_by(experiment_id=experiment, status=RunStatus.FINISHED).first()
        draw = np.random.default_rng(0)
        predictions = Predictions(np.arange(12_000) * 2, *draw.integers(0, 2, (2, 12_000)))
        write_predictions(session, run.id, Split.VALIDATION, predictions)
        write_predictions(session, run.id, Split.TEST, predictions)  # sealed: not exported
        run.results = run.results.dump() | {
            "trivial": {"predictor": "always “0”", "metrics": {"accuracy": 0.5, "f1": None}, "reasons": {"f1": "why"}},
            "constant_prediction": "“0”", "divergence": {"loss": None, "start": 0.7},
        }  # fmt: skip
        run.learning = run.results.learning
    return experiment, run.id


def test_archive_holds_predictions(client, context, archived):
    experiment, run = archived
    files = unpack(export(client, experiment))
    lines = [json.loads(line) for line in files["predictions.jsonl"].splitlines()]
    expected = [(run, "validation", 5000), (run, "validation", 5000), (run, "validation", 2000)]
    assert [(line["run"], line["split"], len(line["rows"])) for line in lines] == expected
    before, results = read_stored(context, run).pack(), client.get(f"/api/runs/{run}").json()["results"]
    with context.sessions.begin() as session:
        session.execute(Run.__table__.delete())
        session.execute(Run.experiment.property.mapper.class_.__table__.delete())
    answer = send(client, pack(files, manifest=False))
    assert answer.is_success, answer.detail
    with context.sessions() as session:
        (row,) = session.query(RunPredictions)
        assert (row.split, row.n, row.data) == (Split.VALIDATION, 12_000, before)
        run = session.get_one(Run, row.run_id)
        assert (run.results.dump(), run.learning) == (results, RunResults(**results).learning)
    del files["predictions.jsonl"]
    with context.sessions.begin() as session:
        session.execute(Run.__table__.delete())
        session.execute(Run.experiment.property.mapper.class_.__table__.delete())
    assert send(client, pack(files)).is_success, "predictions are optional"


def make_line(run="0" * 32, **changes):
    defaults = {"run": run, "split": "validation", "rows": [0], "reference": [0], "predicted": [1]}
    return {name: value for name, value in (defaults | changes).items() if value is not ...}


REFUSED = [
    ([make_line("f" * 32)], "a run that is not in runs.jsonl"),
    ([make_line(), make_line(split="validation", rows=[0])], "ascending"), ([make_line(split="test")], "split"),
    ([make_line(rows=[0, 1])], "one length"), ([make_line(predicted=["a"])], "numbers, got text"),
    ([make_line(predicted=[0.5])], "fractions"), ([make_line(reference=None)], "reference"),
    ([make_line(predicted=[1e20])], "classes up to"),
    ([make_line(predicted=[])], "one length"), ([make_line(rows=[-1])], "at least 0"), ([make_line(data="x")], "data"),
    ([make_line(predicted=[None])], "predicted"),
    ([make_line(rows=list(range(5001)), reference=[0] * 5001, predicted=[0] * 5001)], "5000"),
]  # fmt: skip


def test_invalid_archived_predictions_are_refused(client, archived, tmp_path, context):
    experiment, run = archived
    files, path = unpack(export(client, experiment)), tmp_path / "refused.zip"
    for lines, keyword in REFUSED:
        records = [json.dumps(line).replace("0" * 32, run) for line in lines]
        files["predictions.jsonl"] = "".join(f"{line}\n" for line in records).encode()
        path.write_bytes(pack(files))
        with pytest.raises(IsoscopeError) as refused:
            check_archive(path)
        assert keyword in refused.value.message
        assert "predictions.jsonl" in refused.value.message, keyword
    experiment, run = archived
    with context.sessions() as session:
        other_id = session.query(Run.id).filter(Run.experiment_id == experiment, Run.id != run).first()[0]
    files = unpack(export(client, experiment))
    records = [make_line(run), make_line(other_id), make_line(run, rows=[1])]
    files["predictions.jsonl"] = "".join(f"{json.dumps(line)}\n" for line in records).encode()
    answer = send(client, pack(files))
    assert (answer.status, "twice" in answer.detail) == ("failed", True)


@pytest.mark.both_databases
def test_steps_and_predictions_are_deleted_with_experiment(client, context, archived):
    client.post(f"/api/experiments/{archived[0]}/cancel")
    assert client.delete(f"/api/experiments/{archived[0]}").is_success
    with context.sessions() as session:
        assert (session.query(RunPredictions).count(), session.query(Step).count()) == (0, 0)


def test_client_and_command_download_predictions(context, tmp_path, monkeypatch, capsys):
    add_experiment(context, run_row(id="0" * 32, config={"label_names": ["no", "yes"]}))
    with context.sessions.begin() as session:
        rows = Predictions(np.arange(600), np.arange(600) % 2, np.ones(600, dtype=np.int64))
        write_predictions(session, "0" * 32, Split.VALIDATION, rows)
    with serve_in_thread(create_app(context.settings)) as address, Isoscope(address) as isoscope:
        records = list(isoscope.predictions("0" * 32))
        file = isoscope.download_predictions("0" * 32, tmp_path / "p.csv").read_text()
        monkeypatch.setenv("ISOSCOPE_URL", address)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["isoscope", "predictions", "0" * 32])
        assert main() == 0
        assert capsys.readouterr().out == f"predictions-{'0' * 32}.csv\n"
    assert [row["row"] for row in records] == list(range(600))
    assert records[1] == {"row": 1, "reference": "yes", "predicted": "yes", "exact_match": None, "f1": None}
    assert file.splitlines()[:2] == ["row,reference,predicted", "0,no,yes"]
    assert len(file.splitlines()) == 601
    assert (tmp_path / f"predictions-{'0' * 32}.csv").read_text() == file


def predictions(predicted):
    n = len(predicted)
    return Predictions(np.arange(n), np.zeros(n, dtype=np.int64), np.array(predicted))
